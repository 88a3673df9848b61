"""Claims about the cost of layers: FLOPs, sequential steps, path lengths and crossovers, counted on real operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import split_heads
from regard.attention.scores import DotScores
from regard.attention.token_positions import QueryKeyPositions
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.theory.claim import CheckResult, Claim, Plot
from regard.theory.claims.check_helpers import growth_exponent, seeded
from regard.theory.cost import Trace, reference_layers

TOPIC = "costs"


def trace_layer(layer: nn.Module, *shape: int) -> Trace:
    """Count the operators of one forward pass on an input of this shape."""
    with seeded(0):
        x = torch.randn(*shape)
    with torch.no_grad(), Trace() as trace:
        reference_layers.layer_output(layer, x)
    return trace


def trace_reference(name: str, n: int, d: int, **options: int) -> Trace:
    """Count the operators of a reference layer on n positions of width d."""
    return trace_layer(reference_layers.build_reference_layer(name, d, **options), 1, n, d)


def trace_scores(n: int, d: int) -> Trace:
    """Count the operators of scores, softmax and weighted sum, without projections."""
    with seeded(0):
        q, k, v = (split_heads(torch.randn(1, n, d), 1) for _ in range(3))
    with torch.no_grad(), Trace() as trace:
        DotScores(q, k, QueryKeyPositions(range(n), range(n)), d**-0.5).attend(v)
    return trace


def exponents(count: Callable[..., float], **sizes: tuple[int, ...]) -> dict[str, float]:
    """Return the growth exponent of a count in each size, with the other sizes at their first value."""
    first = {name: values[0] for name, values in sizes.items()}
    return {
        name: growth_exponent(values, [count(**{**first, name: value}) for value in values])
        for name, values in sizes.items()
    }


def local_flops(n: int, d: int, r: int) -> int:
    """Return the FLOPs of local attention without its projections, computed in blocks."""
    return trace_reference("local", n, d, window=r).flops - 8 * n * d * d


def check_layer_costs(seed: int) -> CheckResult:
    ns, ds = (128, 256, 512), (32, 64, 128)
    work = {
        "self-attention": exponents(lambda n, d: trace_scores(n, d).flops, n=ns, d=ds),
        "recurrent": exponents(lambda n, d: trace_reference("gru", n, d).flops, n=ns, d=ds),
        "convolution": exponents(
            lambda n, d, k: trace_reference("convolution", n, d, k=k).flops, n=ns, d=ds, k=(2, 4, 8)
        ),
        "restricted": exponents(local_flops, n=(1024, 2048, 4096), d=ds, r=(32, 64, 128)),
    }
    expected_work = {
        "self-attention": {"n": 2, "d": 1},
        "recurrent": {"n": 1, "d": 2},
        "convolution": {"n": 1, "d": 2, "k": 1},
        "restricted": {"n": 1, "d": 1, "r": 1},
    }
    work_matches = all(
        abs(work[name][size] - exponent) < (0.15 if name == "restricted" else 0.02)
        for name, by_size in expected_work.items()
        for size, exponent in by_size.items()
    )
    step_layers: dict[str, tuple[str, dict[str, int]]] = {
        "self-attention": ("self-attention", {}),
        "recurrent": ("rnn", {}),
        "convolution": ("convolution", {}),
        "restricted": ("local", {"window": 2}),
    }
    steps = {
        name: [trace_reference(layer, n, 16, **options).products for n in (16, 32, 64)]
        for name, (layer, options) in step_layers.items()
    }
    step_flops = [trace_reference("rnn", 9, d).flops / 9 for d in (32, 64)]
    paths, expected_paths = path_lengths()
    lengths = [16, 32, 64, 128, 256, 512]
    return CheckResult(
        {
            "exponents of the FLOPs": work,
            "sequential matrix products at n = 16, 32, 64": steps,
            "layers (or steps) until the last position depends on the first": paths,
            "expected": expected_paths,
        },
        {
            "FLOPs grow as stated": work_matches,
            "self-attention, convolution and restricted attention take the same steps for every n": all(
                len(set(steps[name])) == 1 for name in ("self-attention", "convolution", "restricted")
            ),
            "a recurrent layer takes n steps": [
                b - a for a, b in zip(steps["recurrent"], steps["recurrent"][1:], strict=False)
            ]
            == [16, 32],
            "path lengths as stated": paths == expected_paths,
            "a recurrent step is O(d²)": abs(step_flops[1] / step_flops[0] - 4) < 0.01,
        },
        {
            "FLOPs of a convolution when d doubles grow by": 2 ** work["convolution"]["d"],
            "FLOPs of a recurrent step when d doubles grow by": step_flops[1] / step_flops[0],
        },
        (
            Plot(
                "FLOPs of one layer of width 64",
                "n",
                "FLOPs",
                [
                    {"name": name, "x": lengths, "y": [reference_layers.layer_flops(name, n, 64) for n in lengths]}
                    for name in reference_layers.NAMES
                ],
                "xy",
            ),
        ),
    )


def path_lengths() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return measured and expected layers (steps, for a recurrent layer) until the last output sees the first input."""
    k, ns = 3, (9, 27, 81)
    logs = [round(math.log(n, k)) for n in ns]
    convolution = reference_layers.CausalConv
    cases: dict[str, tuple[Callable[[int], int], list[int]]] = {
        "self-attention": (lambda n: layers_until_visible(n, lambda level: MultiHeadAttention(4, 1), 4), [1] * len(ns)),
        "recurrent, steps": (
            lambda n: trace_layer(reference_layers.StackedRNNCells(4, 1), 1, n, 4).products - 1,
            [n - 1 for n in ns],
        ),
        "convolution": (
            lambda n: layers_until_visible(n, lambda level: convolution(1, k)),
            [-(-(n - 1) // (k - 1)) for n in ns],
        ),
        "convolution, dilated k^l": (
            lambda n: layers_until_visible(n, lambda level: convolution(1, k, dilation=k**level)),
            logs,
        ),
        "convolution, stride k": (lambda n: strided_depth(n, k), logs),
        "restricted to 4 on either side": (
            lambda n: layers_until_visible(n, lambda level: MultiHeadAttention(4, 1, "local:window=4"), 4),
            [-(-(n - 1) // 4) for n in ns],
        ),
    }
    measured = {name: [measure(n) for n in ns] for name, (measure, _) in cases.items()}
    return measured, {name: expected for name, (_, expected) in cases.items()}


def layers_until_visible(n: int, build: Callable[[int], nn.Module], d: int = 1) -> int:
    """Return how many layers it takes until output n - 1 has a gradient from input 0."""
    with seeded(0):
        x = torch.randn(1, n, d, dtype=torch.float64).requires_grad_()
        output: Tensor = x
        for level in range(n):
            layer = build(level).double()
            with torch.no_grad():
                for p in layer.parameters():
                    p.add_(0.5)  # so that no gradients cancel
            output = layer(output)
            output = output / output.detach().abs().max().clamp(min=1e-12)  # keep gradients from underflowing
            (grad,) = torch.autograd.grad(output[0, -1].sum(), x, retain_graph=True)
            if bool((grad[0, 0] != 0).any()):
                return level + 1
    return n


def strided_depth(n: int, k: int) -> int:
    """Return how many convolutions of stride k reduce n positions to one."""
    depth = 0
    with torch.no_grad():
        x = torch.ones(1, 1, n)
        while x.shape[-1] > 1:
            x = nn.functional.conv1d(x, torch.ones(1, 1, k), stride=k)
            depth += 1
    assert float(x) == n  # the last position has summed all inputs
    return depth


def check_crossovers(seed: int) -> CheckResult:
    d = 32
    crossovers: dict[str, list[int | None]] = {}
    for name in ("gru", "lstm", "rnn"):
        counted = None
        for n in (d // 2, d, 2 * d, 4 * d):
            if trace_reference("self-attention", n, d).flops == trace_reference(name, n, d).flops:
                counted = n
        crossovers[name] = [reference_layers.crossover_length(name, d), counted]
    ratio = trace_reference("self-attention", 4, d).flops / trace_reference("rnn", 4, d).flops
    without_projections = trace_scores(d, d).flops, 2 * 2 * d * d * d
    formulas_match = all(
        trace_reference(name, n, d).flops == reference_layers.layer_flops(name, n, d)
        for name in ("self-attention", "rnn", "gru", "lstm", "convolution")
        for n in (5, 33)
    )
    lengths = [8, 16, 32, 64, 128, 256]
    return CheckResult(
        {
            "width": d,
            "crossover by formula and counted": crossovers,
            "self-attention over a plain RNN at n = 4": ratio,
            "formulas equal the counts": formulas_match,
            "without projections, FLOPs at n = d against d² per step": without_projections,
        },
        {
            "n = d against a GRU": crossovers["gru"] == [d, d],
            "n = 2d against an LSTM": crossovers["lstm"] == [2 * d, 2 * d],
            "never against a plain RNN": crossovers["rnn"] == [None, None] and ratio > 1,
            "formulas equal the counts": formulas_match,
            "n = d without projections": without_projections[0] == without_projections[1],
        },
        {"FLOPs over those of a plain RNN at n = 4 < d = 32": ratio},
        (
            Plot(
                "FLOPs per position of one layer of width 32",
                "n",
                "FLOPs",
                [
                    {"name": name, "x": lengths, "y": [reference_layers.layer_flops(name, n, d) / n for n in lengths]}
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
        "For n positions of width d: self-attention takes O(n²d) work, O(1) sequential steps and a path of 1; a "
        "recurrent layer O(nd²), n and n, each step O(d²); a convolution of kernel size k O(knd²), O(1), and a path of "
        "log_k n with dilation k^l or stride k, n/k without; attention restricted to r neighbors O(rnd), O(1), n/r.",
        "n²d | nd² | knd² | rnd",
        check_layer_costs,
        "convolution O(k·n·d); a recurrent step O(d)",
    ),
    Claim(
        "crossings",
        TOPIC,
        "exact",
        "Counted with its projections self-attention is cheaper than a GRU below n = d and than an LSTM below n = 2d, "
        "and never cheaper than a plain tanh RNN. Without projections the crossover against d² per step is n = d.",
        "8nd² + 4n²d against 12nd², 16nd², 4nd²",
        check_crossovers,
        "cheaper whenever n < d",
    ),
]
