"""What may be said of designs that were each trained with several seeds and measured on the same test items.

Two things vary: the seed of a run and the items it is measured on. Of a design's mean over S seeds and n items

    v_items   is its variance by scipy's bootstrap over the items:                  σ_i²/n + σ_is²/(nS)
    v_seeds   s²/S, s² the spread over seeds on the whole test part:                σ_s²/S + σ_is²/(nS)
    v_both    what stands in both, (w - v_items)/(S - 1), w the mean over seeds of each one's own v_items

(crossed random effects, as of readers and cases in Dorfman, Berbaum & Metz 1992, here seeds and items.) A difference of
two designs has the v_items of the paired differences, as both are measured on the same items, and the v_seeds and
v_both of both. An interval reaches to each side by

    reach² = t²(n - 1) · (v_items - v_both) + t²(df) · v_seeds,     at least t²(n - 1) · v_items

each part with its own quantile of Student's t (Zou & Donner 2008), df = S - 1, for a difference Welch's: few seeds ask
for a wide one. p is the level at which the interval ends at 0. Where fewer than `FEW` items tell two designs apart, the
test that draws signs by chance decides if it is the stricter one. All pairs are corrected together (Holm 1979).

Not told apart is not the same as equal: where an interval of a difference reaches further than `MARGIN` of the scale of
the measure, the comparison cannot tell, and it is said how many more seeds would narrow it to that.
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
FEW = 40
MARGIN = 0.1
"""Of the scale, which is 1 of a share and else the best mean: a difference that may be larger is not settled."""
MOST_SEEDS = 1000
_CELLS = 1 << 22  # of the indices that are held at once


@dataclass(frozen=True)
class Spread:
    """An estimate, what its variance is made of, and the degrees of freedom that estimate has."""

    value: float
    items: float
    seeds: tuple[tuple[float, int], ...] = ()
    """(v_seeds, S) of each design in it; none where a single seed says nothing about seeds."""
    both: float = 0.0
    count: int = 2
    """Test items."""

    @property
    def fixed(self) -> float:
        """Variance that more seeds would not take away."""
        return max(self.items - self.both, 0.0) if self.seeds else self.items

    def reach(self, alpha: float = ALPHA) -> float:
        """How far the interval goes to each side."""
        items = float(stats.t.isf(alpha / 2, max(self.count - 1, 1))) ** 2
        seeds = sum(v for v, _ in self.seeds)
        if seeds <= 0:
            return (items * self.items) ** 0.5
        freedom = seeds**2 / sum(v**2 / (s - 1) for v, s in self.seeds)
        both = items * self.fixed + float(stats.t.isf(alpha / 2, freedom)) ** 2 * seeds
        return max(both, items * self.items) ** 0.5

    def interval(self, alpha: float = ALPHA) -> tuple[float, float]:
        reach = self.reach(alpha)
        return self.value - reach, self.value + reach

    @property
    def p(self) -> float:
        """Of a value at least as far from 0, if the true one is 0."""
        size = abs(self.value)
        if size == 0:
            return 1.0
        if self.reach(1e-15) <= size:
            return 1e-15 if self.reach() > 0 else 0.0
        found: Any = optimize.brentq(lambda log: self.reach(math.exp(log)) - size, math.log(1e-15), -1e-12)
        return math.exp(found)


@dataclass(frozen=True)
class Standing:
    """Where a design stands: its mean, a 95 % interval, each seed's value, and a rank that it may share."""

    name: str
    mean: float
    low: float
    high: float
    values: list[float]
    rank: int = 1


@dataclass(frozen=True)
class Pair:
    """Two designs: the difference a - b, its 95 % interval, its p, p corrected for all pairs, and whether they are told
    apart. Where not: how many seeds more each would want at the difference seen, or how many items if seeds alone
    would not do; None where nothing would. `wide`: the interval reaches further than the margin, and `narrow` more
    seeds each would bring it within; None where seeds alone would not."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    corrected: float
    apart: bool
    more_seeds: int | None = None
    items: int | None = None
    wide: bool = False
    narrow: int | None = None


@dataclass(frozen=True)
class Analysis:
    """`margin` is the difference that is still called small."""

    standings: list[Standing] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    margin: float = 0.0

    def pair(self, a: str, b: str) -> Pair:
        return next(p for p in self.pairs if {p.a, p.b} == {a, b})


def analyse(
    scores: Mapping[str, np.ndarray],
    metric: Metric,
    *,
    better: str = "max",
    share: bool = False,
    linear: bool = False,
    top: float | None = None,
    alpha: float = ALPHA,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Analysis:
    """`scores` has for each design what each run got of each item, (seeds, items, k), all of the same items in the same
    order; `metric` turns sums over items into the measure. `share`: it lies between 0 and 1. `linear`: it is the mean
    over items of the first of the k numbers. `top`: it lies between 0 and this, and intervals end there."""
    if not scores:
        return Analysis()
    names = list(scores)
    counts = {values.shape[1] for values in scores.values()}
    if len(counts) != 1 or 0 in counts:
        raise UserError(f"designs are compared on the same items, and were measured on {sorted(counts)} of them")
    n = counts.pop()
    seen = {name: np.asarray(metric(values.sum(1)), float) for name, values in scores.items()}
    drawn = _bootstrap(scores, metric, resamples, seed)
    spreads = {name: _spread(seen[name], drawn[name], n) for name in names}
    pairs = list(combinations(names, 2))
    apart = {pair: _difference(pair, seen, drawn, spreads, n) for pair in pairs}
    p = [apart[pair].p for pair in pairs]
    if linear:
        p = [max(one, _signs(scores[a], scores[b], seed)) for one, (a, b) in zip(p, pairs, strict=True)]
    corrected = holm(p)
    best = (max if better == "max" else min)(spread.value for spread in spreads.values())
    margin = MARGIN * (1.0 if share else abs(best))
    told = [
        _pair(pair, apart[pair], p[i], corrected[i], alpha, len(pairs), [len(seen[name]) for name in pair], margin)
        for i, pair in enumerate(pairs)
    ]
    top = 1.0 if share else top
    if top is not None:  # no two shares differ by more than 1
        told = [replace(t, low=max(t.low, -top), high=min(t.high, top)) for t in told]
    beats = [(t.a, t.b) if (t.difference > 0) == (better == "max") else (t.b, t.a) for t in told if t.apart]
    place = ranks(names, beats)
    standings = []
    for name in names:
        low, high = bounds(spreads[name], share, alpha)
        low, high = (low, high) if top is None else (max(low, 0.0), min(high, top))
        standings.append(Standing(name, spreads[name].value, low, high, seen[name].tolist(), place[name]))
    sign = -1 if better == "max" else 1
    standings.sort(key=lambda s: (s.rank, sign * s.mean))
    return Analysis(standings, told, margin)


def bounds(spread: Spread, share: bool, alpha: float = ALPHA) -> tuple[float, float]:
    """The interval. Of a share it lies within 0 and 1: the part of the items is Wilson's (1927), for as many items as
    would have the variance that was found."""
    low, high = spread.interval(alpha)
    if not share:
        return low, high
    seeds = spread.reach(alpha) ** 2 - float(stats.t.isf(alpha / 2, max(spread.count - 1, 1))) ** 2 * spread.fixed
    ends = [_wilson(spread.value, spread.fixed, spread.count, alpha, max(seeds, 0.0))]
    ends.append(_wilson(spread.value, spread.items, spread.count, alpha, 0.0))
    return max(0.0, min(low for low, _ in ends)), min(1.0, max(high for _, high in ends))


def _wilson(p: float, variance: float, count: int, alpha: float, seeds: float) -> tuple[float, float]:
    """Limits of a share with this variance over items, to which the squared reach of the seeds is added."""
    n = max(float(count), p * (1 - p) / variance) if variance > 0 and 0 < p < 1 else float(count)
    z = float(stats.t.isf(alpha / 2, max(count - 1, 1)))
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return p - ((p - middle + half) ** 2 + seeds) ** 0.5, p + ((middle + half - p) ** 2 + seeds) ** 0.5


def holm(p: Sequence[float]) -> list[float]:
    """p corrected for being among so many (Holm 1979)."""
    order, corrected, highest = np.argsort(p, kind="stable"), [1.0] * len(p), 0.0
    for place, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - place) * p[i]))
        corrected[i] = highest
    return corrected


def ranks(names: Sequence[str], beats: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The best are 1; who is beaten ranks behind all that beat it. Designs that share a rank were not told apart."""
    above = {name: [a for a, b in beats if b == name] for name in names}
    found: dict[str, int] = {}

    def rank(name: str) -> int:
        if name not in found:
            found[name] = 1 + max(map(rank, above[name]), default=0)
        return found[name]

    return {name: rank(name) for name in names}


def _bootstrap(scores: Mapping[str, np.ndarray], metric: Metric, resamples: int, seed: int) -> dict[str, np.ndarray]:
    """The measure of each run on items drawn anew, the same for all: (seeds, resamples) for each design."""
    runs = [run.astype(np.float64) for values in scores.values() for run in values]
    n, k = runs[0].shape
    flat = np.concatenate(runs, 1)  # (items, runs * k)

    def statistic(items: np.ndarray, axis: int = -1) -> np.ndarray:
        rows = items.reshape(-1, n)
        times = np.stack([np.bincount(row, minlength=n) for row in rows]).astype(np.float64)
        sums = (times @ flat).reshape(len(rows), len(runs), k)
        return np.asarray(metric(sums)).T.reshape(len(runs), *items.shape[:-1])

    # a single item says nothing about items
    if n < 2:
        whole = np.asarray(metric(np.stack(runs).sum(1)), float)[:, None].repeat(2, 1)
    else:
        whole = stats.bootstrap(
            (np.arange(n),),
            statistic,
            vectorized=True,
            n_resamples=resamples,
            batch=max(1, _CELLS // n),
            method="percentile",
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution
    ends = np.cumsum([len(values) for values in scores.values()])
    return dict(zip(scores, np.split(whole, ends[:-1]), strict=True))


def _spread(seen: np.ndarray, drawn: np.ndarray, n: int) -> Spread:
    items, seeds = float(drawn.mean(0).var(ddof=1)), len(seen)
    if seeds < 2:
        return Spread(float(seen.mean()), items, (), 0.0, n)
    own = float(drawn.var(1, ddof=1).mean())
    both = max(0.0, (own - items) / (seeds - 1))
    return Spread(float(seen.mean()), items, ((float(seen.var(ddof=1)) / seeds, seeds),), both, n)


def _difference(
    pair: tuple[str, str],
    seen: Mapping[str, np.ndarray],
    drawn: Mapping[str, np.ndarray],
    spreads: Mapping[str, Spread],
    n: int,
) -> Spread:
    a, b = pair
    items = float((drawn[a].mean(0) - drawn[b].mean(0)).var(ddof=1))
    one, other = spreads[a], spreads[b]
    value = float(seen[a].mean() - seen[b].mean())
    return Spread(value, items, one.seeds + other.seeds, one.both + other.both, n)


def _signs(a: np.ndarray, b: np.ndarray, seed: int, draws: int = 9999) -> float:
    """p of the sum of paired differences among those with signs drawn by chance, where few items differ; else 0."""
    difference = a[..., 0].mean(0) - b[..., 0].mean(0)
    difference = difference[difference != 0]
    count = len(difference)
    if count >= FEW:
        return 0.0
    if count <= 12:
        bits = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
        sums = np.abs((2 * bits - 1) @ difference)
        return float((sums >= abs(difference.sum()) - 1e-9).mean())
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), (draws, count))
    return float((1 + (np.abs(signs @ difference) >= abs(difference.sum()) - 1e-9).sum()) / (1 + draws))


def _pair(
    pair: tuple[str, str],
    spread: Spread,
    p: float,
    corrected: float,
    alpha: float,
    among: int,
    seeds: list[int],
    margin: float,
) -> Pair:
    low, high = spread.interval(alpha)
    apart = corrected < alpha
    more, items = (None, None) if apart else wanted(spread, max(seeds), alpha / among)
    wide = not apart and spread.reach(alpha) > margin
    narrow = narrowed(spread, max(seeds), margin, alpha) if wide else None
    return Pair(pair[0], pair[1], spread.value, low, high, p, corrected, apart, more, items, wide, narrow)


def narrowed(spread: Spread, seeds: int, reach: float, alpha: float = ALPHA) -> int | None:
    """How many seeds more would bring the interval within `reach` to each side; None where none would."""
    if not spread.seeds:
        return None
    count = np.arange(seeds + 1, MOST_SEEDS + 1)
    enough = _far(spread, count, alpha) <= reach
    return int(count[enough.argmax()]) - seeds if enough.any() else None


def _far(spread: Spread, count: np.ndarray, alpha: float) -> np.ndarray:
    """The reach with so many seeds of each."""
    each = sum(v * s for v, s in spread.seeds)
    parts = sum((v * s / count) ** 2 for v, s in spread.seeds) / (count - 1)
    freedom = (each / count) ** 2 / np.maximum(parts, 1e-300)
    items = stats.t.isf(alpha / 2, max(spread.count - 1, 1)) ** 2 * spread.fixed
    return (items + stats.t.isf(alpha / 2, np.maximum(freedom, 1.0)) ** 2 * each / count) ** 0.5


def wanted(spread: Spread, seeds: int, alpha: float) -> tuple[int | None, int | None]:
    """How many seeds more would tell such a difference from 0 with chance `POWER`, if it is the true one; where no
    number of seeds would, how many test items, were seeds no question."""
    size = abs(spread.value)
    if size == 0:
        return None, None
    fixed, each = spread.fixed, sum(v * s for v, s in spread.seeds)
    if each > 0:
        count = np.arange(seeds + 1, MOST_SEEDS + 1)
        enough = size >= _far(spread, count, alpha) + stats.norm.ppf(POWER) * (fixed + each / count) ** 0.5
        if enough.any():
            return int(count[enough.argmax()]) - seeds, None
    reach = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(POWER))
    return None, int(np.ceil(spread.count * fixed * (reach / size) ** 2)) or None
