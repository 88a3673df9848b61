"""Times on this machine: do they grow with the exponents that the counts predict, and what does a penalty take?

Figures are never the same twice, and a neighbour on the machine only ever adds to a time. So each piece is timed in
turn, many times over, by the processor time of one thread, and the least of its times counts. What the rounds disagree
about is undecided; `fails` needs rounds that agree on something else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from regard.attention.scores import DotScores
from regard.attention.token_positions import QueryKeyPositions
from regard.layers.attention_pooling import hop_kl, hop_penalty
from regard.theory.claim import Claim, CheckResult, Plot
from regard.theory.claims.check_helpers import noise, seeded, slope, weigh
from regard.theory.cost import reference_layers

TOPIC = "costs"
ROUNDS = 9
SLACK = 0.3
"""How far from the predicted exponent a time may lie: caches bend every curve a little."""
CALM = 1.15
"""Median over least time of a piece, up to which the machine counts as left alone."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Threads of a pool wait for one another, and for whoever else has the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seconds(work: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Each piece in turn, so that a busy moment strikes all alike; the first round is not timed. Processor time of this
    thread, in which waiting for a core does not count."""
    times: dict[str, list[float]] = {name: [] for name in work}
    with one_thread():
        for turn in range(rounds + 1):
            for name, do in work.items():
                begun = time.thread_time()
                do()
                if turn:
                    times[name].append(time.thread_time() - begun)
    return times


def exponent(times: dict[str, list[float]], sizes: dict[str, int], seed: int) -> tuple[float, float, float]:
    """The slope of log time over log size from least times, with the 95 % interval of redrawn rounds."""
    draw = np.random.default_rng(seed)

    def once(pick: np.ndarray) -> float:
        return slope(sizes.values(), [float(np.min(np.array(times[name])[pick])) for name in sizes])

    rounds = len(next(iter(times.values())))
    drawn = [once(draw.integers(0, rounds, rounds)) for _ in range(300)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return once(np.arange(rounds)), float(low), float(high)


def grows(times: dict[str, list[float]], sizes: Sequence[int], wanted: float, seed: int) -> tuple[dict, bool | None]:
    """Figures, and whether these times grow as wanted: no only where they surely do not and no piece was disturbed."""
    at, low, high = exponent(times, {str(size): size for size in sizes}, seed)
    unrest = max(float(np.median(t) / np.min(t)) for t in times.values())
    figures = {"exponent": at, "interval": [low, high], "predicted": wanted, "median over least time": unrest}
    if wanted - SLACK < low and high < wanted + SLACK:
        return figures, True
    outside = high < wanted - SLACK or low > wanted + SLACK
    return figures, False if outside and unrest <= CALM else None


def _attention(n: int, d: int) -> Callable[[], object]:
    with seeded(0):
        q, k, v = (torch.randn(4, 1, n, d) for _ in range(3))
    return lambda: DotScores(q, k, QueryKeyPositions(range(n), range(n)), d**-0.5).attend(v)


def _layer(name: str, n: int, d: int) -> Callable[[], object]:
    with seeded(0):
        made, x = reference_layers.build(name, d).eval(), torch.randn(4, n, d)
    return lambda: reference_layers.run(made, x)


def growth(seed: int) -> CheckResult:
    cases: dict[str, tuple[Callable[[int], Callable[[], object]], tuple[int, ...], float]] = {
        "self-attention in n": (lambda n: _attention(n, 64), (1024, 2048, 4096), 2.0),
        "LSTM in n": (lambda n: _layer("lstm", n, 128), (128, 256, 512, 1024), 1.0),
        "convolution in n": (lambda n: _layer("convolution", n, 128), (1024, 2048, 4096, 8192), 1.0),
        "local attention in n": (lambda n: _layer("local", n, 64), (1024, 2048, 4096, 8192), 1.0),
        "convolution in d": (lambda d: _layer("convolution", 512, d), (256, 512, 1024), 2.0),
    }
    figures, tests, curves = {}, {}, []
    with torch.no_grad():
        for name, (make, sizes, wanted) in cases.items():
            times = seconds({str(size): make(size) for size in sizes})
            figures[name], tests[name] = grows(times, sizes, wanted, seed)
            curves.append({"name": name, "x": list(sizes), "y": [min(times[str(size)]) for size in sizes]})
    return CheckResult(figures, tests, {}, (Plot("Seconds of one core of this machine", "size", "seconds", curves, "xy"),))


def penalty(seed: int) -> CheckResult:
    """P against a KL of all pairs, forward and backward; Lin et al. 2017 say that P takes a third."""
    a = weigh(noise(32, 30, 100, seed=seed)).float()[:, None].requires_grad_()

    def pairs(w: torch.Tensor) -> torch.Tensor:
        rows = w[:, 0]
        log = rows.log()
        return (rows[:, :, None] * (log[:, :, None] - log[:, None])).sum(-1).mean()

    def with_gradient(of: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(of(a).mean(), a)

    times = seconds(
        {"P": with_gradient(hop_penalty), "pairs": with_gradient(pairs), "product": with_gradient(hop_kl)}, 15
    )
    least = {name: min(t) for name, t in times.items()}
    return CheckResult(
        {
            "milliseconds": {name: 1e3 * t for name, t in least.items()},
            "P over KL, pair by pair": least["P"] / least["pairs"],
            "P over KL, one product": least["P"] / least["product"],
        },
        {"P takes less than a KL pair by pair": less(times["P"], times["pairs"])},
        {"said to be": 1 / 3},
    )


def less(one: Sequence[float], other: Sequence[float]) -> bool | None:
    """Whether one piece takes less: the rounds must agree, all but one of them."""
    share = float(np.mean(np.array(one) < np.array(other)))
    edge = 1 / len(one)
    return True if share >= 1 - edge else False if share <= edge else None


CLAIMS = [
    Claim(
        "times-grow",
        TOPIC,
        "timed",
        "Measured times grow with the exponents that the counts predict.",
        "seconds ~ n² d | n d² | k n d² | r n d",
        growth,
    ),
    Claim(
        "penalty-time",
        "structured self-attention",
        "timed",
        "The penalty takes less time than a KL of all pairs; how much less hangs on how the KL is written.",
        "‖A Aᵀ - I‖²_F against Σ_ij KL(a_i ‖ a_j)",
        penalty,
        "a third of the time",
    ),
]
