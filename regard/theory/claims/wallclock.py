"""Claims about wall-clock time on this machine: growth exponents, and the cost of the hop penalty.

Other processes on the machine can only add time. Therefore the functions are timed in turn, many times, by the CPU time
of one thread, and the smallest time counts. If the rounds disagree, the test is undecided; `fails` needs rounds that
agree on another result.
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
from regard.theory.claim import CheckResult, Claim, Plot
from regard.theory.claims.check_helpers import growth_exponent, randn, seeded, softmax_rows
from regard.theory.claims.hop_penalty import pairwise_kl
from regard.theory.cost import reference_layers

TOPIC = "costs"
ROUNDS = 9
EXPONENT_TOLERANCE = 0.3
"""Largest distance from the predicted exponent; caches change every curve a little."""
MAX_DISTURBANCE = 1.15
"""Largest ratio of median to smallest time at which the machine counts as idle."""


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Use one torch thread, since threads of a pool wait for each other and for other processes."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def measure_seconds(functions: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Time the functions in turn, so that a busy moment affects all of them. The first round is a warm-up.

    Returns:
        CPU seconds of this thread for each round; waiting for a core does not count.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    with single_thread():
        for i in range(rounds + 1):
            for name, function in functions.items():
                start = time.thread_time()
                function()
                if i:
                    times[name].append(time.thread_time() - start)
    return times


def bootstrap_exponent(times: dict[str, list[float]], sizes: dict[str, int], seed: int) -> tuple[float, float, float]:
    """Return the growth exponent of the smallest times, and its 95 % bootstrap interval over rounds."""
    rng = np.random.default_rng(seed)

    def exponent(rounds: np.ndarray) -> float:
        return growth_exponent(sizes.values(), [float(np.min(np.array(times[name])[rounds])) for name in sizes])

    num_rounds = len(next(iter(times.values())))
    resampled = [exponent(rng.integers(0, num_rounds, num_rounds)) for _ in range(300)]
    low, high = np.quantile(resampled, (0.025, 0.975))
    return exponent(np.arange(num_rounds)), float(low), float(high)


def compare_growth(
    times: dict[str, list[float]], sizes: Sequence[int], expected: float, seed: int
) -> tuple[dict, bool | None]:
    """Return figures, and whether the times grow with the expected exponent.

    False needs an interval outside of the tolerance on an idle machine; else it is None.
    """
    exponent, low, high = bootstrap_exponent(times, {str(size): size for size in sizes}, seed)
    disturbance = max(float(np.median(t) / np.min(t)) for t in times.values())
    figures = {
        "exponent": exponent,
        "interval": [low, high],
        "predicted": expected,
        "median over smallest time": disturbance,
    }
    if expected - EXPONENT_TOLERANCE < low and high < expected + EXPONENT_TOLERANCE:
        return figures, True
    outside = high < expected - EXPONENT_TOLERANCE or low > expected + EXPONENT_TOLERANCE
    return figures, False if outside and disturbance <= MAX_DISTURBANCE else None


def _attention(n: int, d: int) -> Callable[[], object]:
    with seeded(0):
        q, k, v = (torch.randn(4, 1, n, d) for _ in range(3))
    return lambda: DotScores(q, k, QueryKeyPositions(range(n), range(n)), d**-0.5).attend(v)


def _layer(name: str, n: int, d: int) -> Callable[[], object]:
    with seeded(0):
        layer, x = reference_layers.build_reference_layer(name, d).eval(), torch.randn(4, n, d)
    return lambda: reference_layers.layer_output(layer, x)


def check_times_grow(seed: int) -> CheckResult:
    cases: dict[str, tuple[Callable[[int], Callable[[], object]], tuple[int, ...], float]] = {
        "self-attention in n": (lambda n: _attention(n, 64), (1024, 2048, 4096), 2.0),
        "LSTM in n": (lambda n: _layer("lstm", n, 128), (128, 256, 512, 1024), 1.0),
        "convolution in n": (lambda n: _layer("convolution", n, 128), (1024, 2048, 4096, 8192), 1.0),
        "local attention in n": (lambda n: _layer("local", n, 64), (1024, 2048, 4096, 8192), 1.0),
        "convolution in d": (lambda d: _layer("convolution", 512, d), (256, 512, 1024), 2.0),
    }
    figures, tests, curves = {}, {}, []
    with torch.no_grad():
        for name, (build, sizes, expected) in cases.items():
            times = measure_seconds({str(size): build(size) for size in sizes})
            figures[name], tests[name] = compare_growth(times, sizes, expected, seed)
            curves.append({"name": name, "x": list(sizes), "y": [min(times[str(size)]) for size in sizes]})
    plot = Plot("Seconds on one core of this machine", "size", "seconds", curves, "xy")
    return CheckResult(figures, tests, {}, (plot,))


def check_penalty_time(seed: int) -> CheckResult:
    """Time P against the KL of all pairs, forward and backward; Lin et al. 2017 state a third."""
    weights = softmax_rows(randn(32, 30, 100, seed=seed)).float()[:, None].requires_grad_()

    def with_gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(function(weights).mean(), weights)

    times = measure_seconds(
        {
            "P": with_gradient(hop_penalty),
            "pairs": with_gradient(lambda weights: pairwise_kl(weights[:, 0])),
            "product": with_gradient(hop_kl),
        },
        15,
    )
    smallest = {name: min(t) for name, t in times.items()}
    return CheckResult(
        {
            "milliseconds": {name: 1e3 * t for name, t in smallest.items()},
            "P over KL, pair by pair": smallest["P"] / smallest["pairs"],
            "P over KL, one product": smallest["P"] / smallest["product"],
        },
        {"P takes less time than a KL pair by pair": is_faster(times["P"], times["pairs"])},
        {"claimed ratio": 1 / 3},
    )


def is_faster(a: Sequence[float], b: Sequence[float]) -> bool | None:
    """Return whether `a` takes less time than `b`; None unless all rounds but one agree."""
    fraction = float(np.mean(np.array(a) < np.array(b)))
    one_round = 1 / len(a)
    return True if fraction >= 1 - one_round else False if fraction <= one_round else None


CLAIMS = [
    Claim(
        "times-grow",
        TOPIC,
        "timed",
        "Measured times grow with the exponents that the counted FLOPs predict.",
        "seconds ~ n² d | n d² | k n d² | r n d",
        check_times_grow,
    ),
    Claim(
        "penalty-time",
        "structured self-attention",
        "timed",
        "The penalty takes less time than a KL of all pairs; how much less depends on how the KL is implemented.",
        "‖A Aᵀ - I‖²_F against Σ_ij KL(a_i ‖ a_j)",
        check_penalty_time,
        "a third of the time",
    ),
]
