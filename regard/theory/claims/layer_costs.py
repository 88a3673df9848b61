"""What layers cost: work, steps, paths, crossings and parallel time, counted on the operators that run."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import split_heads
from regard.attention.scores import DotScores
from regard.attention.token_positions import QueryKeyPositions
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.theory.claim import Claim, CheckResult, Plot
from regard.theory.claims.check_helpers import seeded, slope
from regard.theory.cost import Trace
from regard.theory.cost import reference_layers as layers

TOPIC = "costs"


def traced(module: nn.Module, *shape: int) -> Trace:
    with seeded(0):
        x = torch.randn(*shape)
    with torch.no_grad(), Trace() as trace:
        layers.run(module, x)
    return trace


def compared(n: int, d: int) -> Trace:
    """Scores, softmax and reading alone, without projections."""
    with seeded(0):
        q, k, v = (split_heads(torch.randn(1, n, d), 1) for _ in range(3))
    with torch.no_grad(), Trace() as trace:
        DotScores(q, k, QueryKeyPositions(range(n), range(n)), d**-0.5).attend(v)
    return trace


def growth(count, **sizes: tuple[int, ...]) -> dict[str, float]:
    """Exponents of a count in each size, the others staying at their first."""
    first = {name: values[0] for name, values in sizes.items()}
    return {
        name: slope(values, [count(**{**first, name: value}) for value in values]) for name, values in sizes.items()
    }


def layer_costs(seed: int) -> CheckResult:
    ns, ds = (128, 256, 512), (32, 64, 128)
    work = {
        "self-attention": growth(lambda n, d: compared(n, d).flops, n=ns, d=ds),
        "recurrent": growth(lambda n, d: traced(layers.build("gru", d), 1, n, d).flops, n=ns, d=ds),
        "convolution": growth(
            lambda n, d, k: traced(layers.build("convolution", d, k=k), 1, n, d).flops, n=ns, d=ds, k=(2, 4, 8)
        ),
        "restricted": growth(_restricted, n=(1024, 2048, 4096), d=ds, r=(32, 64, 128)),
    }
    wanted = {
        "self-attention": {"n": 2, "d": 1},
        "recurrent": {"n": 1, "d": 2},
        "convolution": {"n": 1, "d": 2, "k": 1},
        "restricted": {"n": 1, "d": 1, "r": 1},
    }
    steps = {
        name: [traced(layers.build(kind, 16), 1, n, 16).products for n in (16, 32, 64)]
        for name, kind in (("self-attention", "self-attention"), ("recurrent", "rnn"), ("convolution", "convolution"))
    }
    steps["restricted"] = [traced(layers.build("local", 16, window=2), 1, n, 16).products for n in (16, 32, 64)]
    step = [traced(layers.build("rnn", d), 1, 9, d).flops / 9 for d in (32, 64)]
    paths, expected = path_lengths()
    exact = all(abs(work[a][b] - wanted[a][b]) < 0.02 for a in wanted for b in wanted[a] if a != "restricted")
    close = all(abs(work["restricted"][b] - 1) < 0.15 for b in wanted["restricted"])
    return CheckResult(
        {
            "exponents of the work": work,
            "matrix products one after the other at n = 16, 32, 64": steps,
            "layers (or steps) until the first place reaches the last": paths,
            "expected": expected,
        },
        {
            "work grows as said": exact and close,
            "self-attention, convolution and restricted attention take the same steps for every n": all(
                len(set(steps[name])) == 1 for name in ("self-attention", "convolution", "restricted")
            ),
            "a recurrent layer takes n": [
                b - a for a, b in zip(steps["recurrent"], steps["recurrent"][1:], strict=False)
            ]
            == [16, 32],
            "paths as said": paths == expected,
            "a recurrent step is O(d²)": abs(step[1] / step[0] - 4) < 0.01,
        },
        {
            "a convolution's work when d doubles grows by": 2 ** work["convolution"]["d"],
            "a recurrent step's work when d doubles grows by": step[1] / step[0],
        },
        (
            Plot(
                "FLOPs of one layer of width 64",
                "n",
                "FLOPs",
                [
                    {
                        "name": name,
                        "x": [16, 32, 64, 128, 256, 512],
                        "y": [layers.flops(name, n, 64) for n in (16, 32, 64, 128, 256, 512)],
                    }
                    for name in layers.NAMES
                ],
                "xy",
            ),
        ),
    )


def _restricted(n: int, d: int, r: int) -> int:
    """What local attention computes beyond its projections, as run in blocks."""
    made = layers.build("local", d, window=r)
    return traced(made, 1, n, d).flops - 8 * n * d * d


def path_lengths() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Layers until the last output depends on the first input, found by gradients; for a recurrent layer, steps."""
    k, ns = 3, (9, 27, 81)
    plain = [_layers_until(n, lambda level: layers.Convolution(1, k)) for n in ns]
    dilated = [_layers_until(n, lambda level: layers.Convolution(1, k, dilation=k**level)) for n in ns]
    strided = [_strided(n, k) for n in ns]
    whole = [_layers_until(n, lambda level: MultiHeadAttention(4, 1), 4) for n in ns]
    local = [_layers_until(n, lambda level: MultiHeadAttention(4, 1, "local:window=4"), 4) for n in ns]
    recurrent = [traced(layers.Cells(4, 1), 1, n, 4).products - 1 for n in ns]
    found = {
        "self-attention": whole,
        "recurrent, steps": recurrent,
        "convolution": plain,
        "convolution, dilated k^l": dilated,
        "convolution, stride k": strided,
        "restricted to 4 either side": local,
    }
    logs = [round(math.log(n, k)) for n in ns]
    expected = {
        "self-attention": [1] * len(ns),
        "recurrent, steps": [n - 1 for n in ns],
        "convolution": [-(-(n - 1) // (k - 1)) for n in ns],
        "convolution, dilated k^l": logs,
        "convolution, stride k": logs,
        "restricted to 4 either side": [-(-(n - 1) // 4) for n in ns],
    }
    return found, expected


def _layers_until(n: int, layer, d: int = 1) -> int:
    """How many layers are stacked until place n - 1 regards place 0."""
    with seeded(0):
        x = torch.randn(1, n, d, dtype=torch.float64).requires_grad_()
        out: Tensor = x
        for level in range(n):
            made = layer(level).double()
            with torch.no_grad():
                for p in made.parameters():
                    p.add_(0.5)  # nothing cancels by chance
            # Sizes stay within what doubles hold, or a gradient would vanish by rounding.
            out = made(out)
            out = out / out.detach().abs().max().clamp(min=1e-12)
            (grad,) = torch.autograd.grad(out[0, -1].sum(), x, retain_graph=True)
            if bool((grad[0, 0] != 0).any()):
                return level + 1
    return n


def _strided(n: int, k: int) -> int:
    length, level = n, 0
    with torch.no_grad():
        x = torch.ones(1, 1, n)
        while length > 1:
            x = nn.functional.conv1d(x, torch.ones(1, 1, k), stride=k)
            length, level = x.shape[-1], level + 1
    assert float(x) == n  # the one place left has read all
    return level


def crossings(seed: int) -> CheckResult:
    d = 32
    at: dict[str, list[int | None]] = {}
    for name in ("gru", "lstm", "rnn"):
        n = layers.crossing(name, d)
        found = None
        other = layers.build(name, d)
        for length in (d // 2, d, 2 * d, 4 * d):
            ours = traced(layers.build("self-attention", d), 1, length, d).flops
            theirs = traced(other, 1, length, d).flops
            if ours == theirs:
                found = length
        at[name] = [n, found]
    short = traced(layers.build("self-attention", d), 1, 4, d).flops / traced(layers.build("rnn", d), 1, 4, d).flops
    bare = compared(d, d).flops, 2 * 2 * d * d * d
    formula = all(
        traced(layers.build(name, d), 1, n, d).flops == layers.flops(name, n, d)
        for name in ("self-attention", "rnn", "gru", "lstm", "convolution")
        for n in (5, 33)
    )
    lengths = [8, 16, 32, 64, 128, 256]
    return CheckResult(
        {
            "width": d,
            "crossing by formula and counted": at,
            "self-attention over a plain RNN at n = 4": short,
            "formulas equal what is counted": formula,
            "without projections, FLOPs at n = d against d² a step": bare,
        },
        {
            "n = d against a GRU": at["gru"] == [d, d],
            "n = 2d against an LSTM": at["lstm"] == [2 * d, 2 * d],
            "never against a plain RNN": at["rnn"] == [None, None] and short > 1,
            "formulas equal what is counted": formula,
            "without projections n = d": bare[0] == bare[1],
        },
        {"n = 4 < d = 32, yet times the work of a plain RNN": short},
        (
            Plot(
                "FLOPs of one layer of width 32, a position",
                "n",
                "FLOPs",
                [
                    {"name": name, "x": lengths, "y": [layers.flops(name, n, d) / n for n in lengths]}
                    for name in ("self-attention", "rnn", "gru", "lstm")
                ],
                "xy",
            ),
        ),
    )


CLAIMS = [
    Claim(
        "layer-costs",
        TOPIC,
        "exact",
        "For n positions of width d: self-attention takes O(n²d) work, O(1) steps one after the other and a path of 1; "
        "a recurrent layer O(nd²), n and n, each step O(d²); a convolution of width k O(knd²), O(1), and a path of "
        "log_k n with dilation k^l or stride k, n/k plain; attention restricted to r neighbours O(rnd), O(1), n/r.",
        "n²d | nd² | knd² | rnd",
        layer_costs,
        "convolution O(k·n·d); a recurrent step O(d)",
    ),
    Claim(
        "crossings",
        TOPIC,
        "exact",
        "Counted with its projections self-attention is cheaper than a GRU below n = d and than an LSTM below n = 2d, "
        "and never cheaper than a plain tanh RNN. Without projections the crossing against d² a step is n = d.",
        "8nd² + 4n²d against 12nd², 16nd², 4nd²",
        crossings,
        "cheaper whenever n < d",
    ),
]
