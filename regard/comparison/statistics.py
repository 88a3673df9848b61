"""Statistics of designs that are trained with several seeds and evaluated on the same test items.

Two things vary: the seed of a run and the items it is evaluated on. Of a design's mean over S seeds and n items

    v_items   is its variance by scipy's bootstrap over the items:                  σ_i²/n + σ_is²/(nS)
    v_seeds   s²/S, s² the variance over seeds on the whole test part:              σ_s²/S + σ_is²/(nS)
    v_both    the term in both, (w - v_items)/(S - 1), w the mean over seeds of each one's own v_items

(crossed random effects, as of readers and cases in Dorfman, Berbaum & Metz 1992, here seeds and items.) A difference of
two designs has the v_items of the paired differences, as both are evaluated on the same items, and the v_seeds and
v_both of both. The half width of an interval is

    half_width² = t²(n - 1) · (v_items - v_both) + t²(df) · v_seeds,     at least t²(n - 1) · v_items

each term with its own quantile of Student's t (Zou & Donner 2008), df = S - 1, for a difference Welch's: few seeds need
a large one. p is the level at which the interval ends at 0. If fewer than `FEW_ITEMS` items differ between two designs,
a sign-flip permutation test decides if it is the stricter one. All pairs are corrected together (Holm 1979).

No significant difference does not mean equal. If the interval of a difference is wider than `MARGIN` of the scale of
the metric, the pair is inconclusive, and the number of seeds that would narrow it is reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import optimize, stats

from regard.errors import UserError
from regard.tasks.comparison import Metric

ALPHA = 0.05
POWER = 0.8
RESAMPLES = 2000
FEW_ITEMS = 40
MARGIN = 0.1
"""A difference up to this fraction of the scale is small. The scale is 1 for a fraction, else the best mean."""
MAX_SEEDS = 1000
_MAX_INDICES = 1 << 22  # bootstrap indices in memory at the same time


@dataclass(frozen=True)
class Estimate:
    """An estimated value and the parts of its variance.

    Args:
        item_variance: v_items.
        seed_variances: (v_seeds, S) of each design in it; empty for a single seed.
        shared_variance: v_both.
        num_items: Number of test items.
    """

    value: float
    item_variance: float
    seed_variances: tuple[tuple[float, int], ...] = ()
    shared_variance: float = 0.0
    num_items: int = 2

    @property
    def irreducible_variance(self) -> float:
        """The variance that more seeds would not reduce."""
        if not self.seed_variances:
            return self.item_variance
        return max(self.item_variance - self.shared_variance, 0.0)

    def half_width(self, alpha: float = ALPHA) -> float:
        """Return half the width of the interval."""
        t2_items = item_quantile(self.num_items, alpha) ** 2
        seeds = sum(v for v, _ in self.seed_variances)
        if seeds <= 0:
            return (t2_items * self.item_variance) ** 0.5
        df = seeds**2 / sum(v**2 / (s - 1) for v, s in self.seed_variances)
        both = t2_items * self.irreducible_variance + float(stats.t.isf(alpha / 2, df)) ** 2 * seeds
        return max(both, t2_items * self.item_variance) ** 0.5

    def interval(self, alpha: float = ALPHA) -> tuple[float, float]:
        half_width = self.half_width(alpha)
        return self.value - half_width, self.value + half_width

    @property
    def p(self) -> float:
        """The probability of a value at least this far from 0 if the true value is 0."""
        size = abs(self.value)
        if size == 0:
            return 1.0
        if self.half_width(1e-15) <= size:
            return 1e-15 if self.half_width() > 0 else 0.0
        root: Any = optimize.brentq(lambda log: self.half_width(math.exp(log)) - size, math.log(1e-15), -1e-12)
        return math.exp(root)


def item_quantile(num_items: int, alpha: float) -> float:
    """Return Student's t quantile for the variance over items."""
    return float(stats.t.isf(alpha / 2, max(num_items - 1, 1)))


@dataclass(frozen=True)
class DesignEstimate:
    """A design's mean with its 95 % interval, the value of each seed, and its rank, which designs may share."""

    name: str
    mean: float
    low: float
    high: float
    values: list[float]
    rank: int = 1


@dataclass(frozen=True)
class Pair:
    """The difference of two designs.

    Args:
        difference: The mean of a minus that of b, with its 95 % interval (low, high).
        p: The p-value.
        p_corrected: The p-value, corrected for all pairs (Holm).
        significant: Whether p_corrected is below 0.05.
        seeds_needed: More seeds for each design to show such a difference; None if no number of seeds would.
        items_needed: Test items to show it, if seeds alone would not.
        inconclusive: Not significant, and the interval is wider than the margin.
        seeds_for_margin: More seeds for each design to narrow the interval to the margin; None if none would.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    significant: bool
    seeds_needed: int | None = None
    items_needed: int | None = None
    inconclusive: bool = False
    seeds_for_margin: int | None = None


@dataclass(frozen=True)
class Analysis:
    """Estimates of all designs, the best first, and of all pairs. `margin` is the largest difference called small."""

    estimates: list[DesignEstimate] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    margin: float = 0.0

    def find_pair(self, a: str, b: str) -> Pair:
        return next(p for p in self.pairs if {p.a, p.b} == {a, b})


def analyse(
    scores: Mapping[str, np.ndarray],
    metric: Metric,
    *,
    better: str = "max",
    is_fraction: bool = False,
    is_mean: bool = False,
    maximum: float | None = None,
    alpha: float = ALPHA,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Analysis:
    """Estimate a metric of each design and of each difference.

    Args:
        scores: For each design the scores of each run on each item, (seeds, items, k), in the same order of items.
        metric: Maps sums over items (..., k) to the metric.
        better: "max" or "min".
        is_fraction: The metric lies between 0 and 1.
        is_mean: The metric is the mean over items of the first of the k numbers.
        maximum: The metric lies between 0 and this; intervals are clipped.
    """
    if not scores:
        return Analysis()
    names = list(scores)
    item_counts = {values.shape[1] for values in scores.values()}
    if len(item_counts) != 1 or 0 in item_counts:
        raise UserError(f"all designs must be evaluated on the same test items, not on {sorted(item_counts)} items")
    n = item_counts.pop()
    values = {name: np.asarray(metric(runs.sum(1)), float) for name, runs in scores.items()}
    resampled = _bootstrap(scores, metric, resamples, seed)
    estimates = {name: _estimate(values[name], resampled[name], n) for name in names}
    name_pairs = list(combinations(names, 2))
    differences = {pair: _estimate_difference(pair, values, resampled, estimates, n) for pair in name_pairs}
    p_values = [differences[pair].p for pair in name_pairs]
    if is_mean:
        p_values = [
            max(p, _sign_flip_p(scores[a], scores[b], seed)) for p, (a, b) in zip(p_values, name_pairs, strict=True)
        ]
    corrected = holm(p_values)
    best = (max if better == "max" else min)(estimate.value for estimate in estimates.values())
    margin = MARGIN * (1.0 if is_fraction else abs(best))
    pairs = [
        _pair(
            pair,
            differences[pair],
            (p, p_corrected),
            alpha=alpha,
            num_pairs=len(name_pairs),
            seeds=max(len(values[name]) for name in pair),
            margin=margin,
        )
        for pair, p, p_corrected in zip(name_pairs, p_values, corrected, strict=True)
    ]
    maximum = 1.0 if is_fraction else maximum
    if maximum is not None:  # two fractions differ by at most 1
        pairs = [replace(pair, low=max(pair.low, -maximum), high=min(pair.high, maximum)) for pair in pairs]
    wins = [
        (pair.a, pair.b) if (pair.difference > 0) == (better == "max") else (pair.b, pair.a)
        for pair in pairs
        if pair.significant
    ]
    ranks = rank_designs(names, wins)
    results = []
    for name in names:
        low, high = clipped_interval(estimates[name], is_fraction, alpha)
        low, high = (low, high) if maximum is None else (max(low, 0.0), min(high, maximum))
        results.append(DesignEstimate(name, estimates[name].value, low, high, values[name].tolist(), ranks[name]))
    sign = -1 if better == "max" else 1
    results.sort(key=lambda result: (result.rank, sign * result.mean))
    return Analysis(results, pairs, margin)


def clipped_interval(estimate: Estimate, is_fraction: bool, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the interval; for a fraction within 0 and 1.

    For a fraction the part of the items is Wilson's (1927), for as many items as would have the estimated variance.
    """
    low, high = estimate.interval(alpha)
    if not is_fraction:
        return low, high
    items = item_quantile(estimate.num_items, alpha) ** 2 * estimate.irreducible_variance
    seeds = max(estimate.half_width(alpha) ** 2 - items, 0.0)
    intervals = [
        _wilson(estimate.value, estimate.irreducible_variance, estimate.num_items, alpha, seeds),
        _wilson(estimate.value, estimate.item_variance, estimate.num_items, alpha, 0.0),
    ]
    return max(0.0, min(low for low, _ in intervals)), min(1.0, max(high for _, high in intervals))


def _wilson(p: float, variance: float, count: int, alpha: float, seeds: float) -> tuple[float, float]:
    """Return the limits of a fraction with this variance over items; `seeds` is added to the squared half widths."""
    n = max(float(count), p * (1 - p) / variance) if variance > 0 and 0 < p < 1 else float(count)
    z = item_quantile(count, alpha)
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return p - ((p - middle + half) ** 2 + seeds) ** 0.5, p + ((middle + half - p) ** 2 + seeds) ** 0.5


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple comparisons (Holm 1979)."""
    count = len(p_values)
    corrected, highest = [1.0] * count, 0.0
    for position, i in enumerate(np.argsort(p_values, kind="stable")):
        highest = max(highest, min(1.0, (count - position) * p_values[i]))
        corrected[i] = highest
    return corrected


def rank_designs(names: Sequence[str], wins: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return ranks from 1: a design ranks behind all that beat it significantly.

    Args:
        wins: Pairs (winner, loser).
    """
    winners = {name: [winner for winner, loser in wins if loser == name] for name in names}
    ranks: dict[str, int] = {}

    def rank(name: str) -> int:
        if name not in ranks:
            ranks[name] = 1 + max(map(rank, winners[name]), default=0)
        return ranks[name]

    return {name: rank(name) for name in names}


def _bootstrap(scores: Mapping[str, np.ndarray], metric: Metric, resamples: int, seed: int) -> dict[str, np.ndarray]:
    """Return the metric of each run on resampled items, the same items for all: (seeds, resamples) per design."""
    runs = [run.astype(np.float64) for values in scores.values() for run in values]
    n, k = runs[0].shape
    flat = np.concatenate(runs, 1)  # (items, runs * k)

    def statistic(items: np.ndarray, axis: int = -1) -> np.ndarray:
        rows = items.reshape(-1, n)
        counts = np.stack([np.bincount(row, minlength=n) for row in rows]).astype(np.float64)
        sums = (counts @ flat).reshape(len(rows), len(runs), k)
        return np.asarray(metric(sums)).T.reshape(len(runs), *items.shape[:-1])

    if n < 2:  # a single item has no variance
        resampled = np.asarray(metric(np.stack(runs).sum(1)), float)[:, None].repeat(2, 1)
    else:
        resampled = stats.bootstrap(
            (np.arange(n),),
            statistic,
            vectorized=True,
            n_resamples=resamples,
            batch=max(1, _MAX_INDICES // n),
            method="percentile",
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution
    ends = np.cumsum([len(values) for values in scores.values()])
    return dict(zip(scores, np.split(resampled, ends[:-1]), strict=True))


def _estimate(values: np.ndarray, resampled: np.ndarray, n: int) -> Estimate:
    """Estimate a design from the value of each seed, and from its values on resampled items."""
    item_variance, seeds = float(resampled.mean(0).var(ddof=1)), len(values)
    if seeds < 2:
        return Estimate(float(values.mean()), item_variance, (), 0.0, n)
    own = float(resampled.var(1, ddof=1).mean())
    shared = max(0.0, (own - item_variance) / (seeds - 1))
    return Estimate(float(values.mean()), item_variance, ((float(values.var(ddof=1)) / seeds, seeds),), shared, n)


def _estimate_difference(
    pair: tuple[str, str],
    values: Mapping[str, np.ndarray],
    resampled: Mapping[str, np.ndarray],
    estimates: Mapping[str, Estimate],
    n: int,
) -> Estimate:
    a, b = pair
    item_variance = float((resampled[a].mean(0) - resampled[b].mean(0)).var(ddof=1))
    return Estimate(
        float(values[a].mean() - values[b].mean()),
        item_variance,
        estimates[a].seed_variances + estimates[b].seed_variances,
        estimates[a].shared_variance + estimates[b].shared_variance,
        n,
    )


def _sign_flip_p(a: np.ndarray, b: np.ndarray, seed: int, samples: int = 9999) -> float:
    """Return the p-value of a sign-flip test on the paired differences, if few items differ; else 0."""
    differences = a[..., 0].mean(0) - b[..., 0].mean(0)
    differences = differences[differences != 0]
    count = len(differences)
    if count >= FEW_ITEMS:
        return 0.0
    threshold = abs(differences.sum()) - 1e-9
    if count <= 12:
        bits = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
        return float((np.abs((2 * bits - 1) @ differences) >= threshold).mean())
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), (samples, count))
    return float((1 + (np.abs(signs @ differences) >= threshold).sum()) / (1 + samples))


def _pair(
    names: tuple[str, str],
    estimate: Estimate,
    p_values: tuple[float, float],
    *,
    alpha: float,
    num_pairs: int,
    seeds: int,
    margin: float,
) -> Pair:
    """Describe the difference of two designs; `p_values` without and with correction."""
    significant = p_values[1] < alpha
    needed = (None, None) if significant else needed_for_power(estimate, seeds, alpha / num_pairs)
    inconclusive = not significant and estimate.half_width(alpha) > margin
    seeds_for_margin = seeds_for_half_width(estimate, seeds, margin, alpha) if inconclusive else None
    interval = estimate.interval(alpha)
    return Pair(*names, estimate.value, *interval, *p_values, significant, *needed, inconclusive, seeds_for_margin)


def seeds_for_half_width(estimate: Estimate, seeds: int, half_width: float, alpha: float = ALPHA) -> int | None:
    """Return how many more seeds would narrow the interval to this half width; None if none would."""
    if not estimate.seed_variances:
        return None
    counts = np.arange(seeds + 1, MAX_SEEDS + 1)
    enough = _half_width_with_seeds(estimate, counts, alpha) <= half_width
    return int(counts[enough.argmax()]) - seeds if enough.any() else None


def _half_width_with_seeds(estimate: Estimate, counts: np.ndarray, alpha: float) -> np.ndarray:
    """Return the half width of the interval for each number of seeds."""
    variance = sum(v * s for v, s in estimate.seed_variances)
    parts = sum((v * s / counts) ** 2 for v, s in estimate.seed_variances) / (counts - 1)
    df = (variance / counts) ** 2 / np.maximum(parts, 1e-300)
    items = item_quantile(estimate.num_items, alpha) ** 2 * estimate.irreducible_variance
    return (items + stats.t.isf(alpha / 2, np.maximum(df, 1.0)) ** 2 * variance / counts) ** 0.5


def needed_for_power(estimate: Estimate, seeds: int, alpha: float) -> tuple[int | None, int | None]:
    """Return how many more seeds, or else how many test items, would show the difference with probability `POWER`.

    This assumes that the estimated difference is the true one.
    """
    size = abs(estimate.value)
    if size == 0:
        return None, None
    fixed, variance = estimate.irreducible_variance, sum(v * s for v, s in estimate.seed_variances)
    if variance > 0:
        counts = np.arange(seeds + 1, MAX_SEEDS + 1)
        error = (fixed + variance / counts) ** 0.5
        enough = size >= _half_width_with_seeds(estimate, counts, alpha) + stats.norm.ppf(POWER) * error
        if enough.any():
            return int(counts[enough.argmax()]) - seeds, None
    quantile = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(POWER))
    return None, int(np.ceil(estimate.num_items * fixed * (quantile / size) ** 2)) or None
