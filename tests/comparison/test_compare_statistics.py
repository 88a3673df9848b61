"""Intervals and tests have their nominal error rates, on random data with a known truth."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from regard.comparison.statistics import (
    Estimate,
    analyse,
    clipped_interval,
    holm,
    needed_for_power,
    rank_designs,
    seeds_for_half_width,
)
from regard.errors import UserError


def mean(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def random_scores(
    random, designs: int, seeds: int, n: int, *, item=1.0, taste=0.3, seed=0.1, both=0.5, shift=()
) -> dict:
    """Return scores with variance over items (shared and per design), over seeds, and over seeds and items."""
    common = item * random.normal(size=n)
    scores = {}
    for d in range(designs):
        values = common + taste * random.normal(size=n) + seed * random.normal(size=(seeds, 1))
        values = values + both * random.normal(size=(seeds, n)) + (shift[d] if shift else 0.0)
        scores[f"d{d}"] = np.stack([values, np.ones_like(values)], -1)
    return scores


quick = partial(analyse, metric=mean, resamples=200)


@pytest.mark.parametrize(
    ("seeds", "taste", "seed", "both"),
    [
        (2, 0.3, 0.1, 0.5),
        (2, 0.0, 0.3, 0.2),
        (3, 0.3, 0.1, 0.5),
        (5, 0.0, 0.2, 0.3),
        (5, 0.5, 0.0, 1.0),
        (3, 0.0, 0.0, 1.0),
    ],
)
def test_equal_designs_are_rarely_significant(seeds, taste, seed, both):
    random, trials = np.random.default_rng(0), 300
    num_significant = sum(
        quick(random_scores(random, 2, seeds, 150, taste=taste, seed=seed, both=both)).pairs[0].significant
        for _ in range(trials)
    )
    assert num_significant / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
    if seeds >= 3 and (taste or seed):
        assert num_significant / trials >= 0.01  # a test that is never significant would be useless


def test_the_familywise_error_rate_is_controlled():
    random, trials = np.random.default_rng(1), 150
    wrong = sum(any(p.significant for p in quick(random_scores(random, 5, 4, 120)).pairs) for _ in range(trials))
    assert wrong / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_ignoring_seeds_would_be_significant_too_often():
    """A paired test over items alone, as in most tables, is significant far too often."""
    random, num_significant = np.random.default_rng(2), 0
    for _ in range(200):
        scores = random_scores(random, 2, 3, 150, taste=0.0, seed=0.3, both=0.2)
        a, b = (scores[name][..., 0].mean(0) for name in scores)
        num_significant += stats.ttest_rel(a, b).pvalue < 0.05
    assert num_significant / 200 > 0.3


@pytest.mark.parametrize(("seeds", "seed"), [(2, 0.3), (2, 0.0), (3, 0.1), (3, 0.5), (5, 0.0), (5, 0.3)])
def test_intervals_contain_the_truth(seeds, seed):
    random, trials = np.random.default_rng(3), 400
    result = [quick(random_scores(random, 1, seeds, 100, seed=seed)).estimates[0] for _ in range(trials)]
    fraction = np.mean([s.low <= 0 <= s.high for s in result])
    assert fraction >= 0.95 - 3 * (0.05 * 0.95 / trials) ** 0.5
    assert fraction <= 0.998


def test_intervals_of_differences_contain_the_truth():
    random, trials = np.random.default_rng(4), 300
    result = [quick(random_scores(random, 2, 5, 150, shift=(0.6, 0.0))).pairs[0] for _ in range(trials)]
    assert np.mean([p.low <= 0.6 <= p.high for p in result]) == pytest.approx(0.95, abs=0.05)
    assert np.mean([p.significant for p in result]) > 0.9


def test_few_different_items_use_an_exact_test():
    """Five items of a hundred differ, all in favor of one design: 2 / 2^5 of all sign flips are as extreme."""
    a, b = np.ones((1, 100, 2)), np.ones((1, 100, 2))
    b[0, :5, 0] = 0
    pair = analyse({"a": a, "b": b}, mean, is_fraction=True, is_mean=True).pairs[0]
    assert pair.p == pytest.approx(2 / 32)
    assert not pair.significant
    b[0, :12, 0] = 0
    assert analyse({"a": a, "b": b}, mean, is_fraction=True, is_mean=True).pairs[0].significant


def test_small_differences_in_accuracy_are_rarely_significant():
    """Accuracy on few items with one seed; both designs are the same model trained twice."""
    random, num_significant, trials = np.random.default_rng(5), 0, 400
    for _ in range(trials):
        hard = random.random(80) < 0.9
        runs = [np.where(random.random(80) < 0.06, ~hard, hard).astype(float) for _ in range(2)]
        scores = {f"d{i}": np.stack([run, np.ones(80)], -1)[None] for i, run in enumerate(runs)}
        num_significant += analyse(scores, mean, is_fraction=True, is_mean=True, resamples=200).pairs[0].significant
    assert num_significant / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_the_needed_seeds_are_enough():
    """With the needed number of seeds the difference is significant with the stated power."""
    estimate = Estimate(0.2, 0.001, ((0.02, 4), (0.02, 4)), 0.0001, 400)
    more, items = needed_for_power(estimate, 4, 0.05)
    assert items is None
    assert more is not None
    random, num_significant = np.random.default_rng(6), 0
    seeds, trials = 4 + more, 300
    for _ in range(trials):
        a, b = (random.normal(size=seeds) * (0.08**0.5) for _ in range(2))
        d = 0.2 + random.normal() * 0.0009**0.5 + a.mean() - b.mean()
        parts = ((a.var(ddof=1) / seeds, seeds), (b.var(ddof=1) / seeds, seeds))
        num_significant += Estimate(d, 0.0009, parts, 0.0, 400).p < 0.05
    assert num_significant / trials == pytest.approx(0.8, abs=0.08)


def test_items_are_needed_where_seeds_cannot_help():
    more, items = needed_for_power(Estimate(0.01, 0.0004, ((1e-9, 3), (1e-9, 3)), 0.0, 1000), 3, 0.05)
    assert more is None
    assert items == pytest.approx(1000 * 4 * (1.96 + 0.8416) ** 2, rel=0.01)
    assert needed_for_power(Estimate(0.0, 0.1, (), 0.0, 10), 1, 0.05) == (None, None)


def test_the_seeds_for_a_half_width_are_enough():
    """With that many more seeds the interval is narrow enough, and with one less it is not."""
    random = np.random.default_rng(7)
    few = random_scores(random, 2, 3, 2000, seed=0.5, taste=0.0, shift=(2.0, 2.0))
    pair = quick(few).pairs[0]
    assert pair.inconclusive
    assert pair.seeds_for_margin is not None
    estimate = Estimate(0.0, 0.0001, ((0.05, 3), (0.02, 3)), 0.0, 400)
    more = seeds_for_half_width(estimate, 3, 0.1)
    assert more is not None

    def with_seeds(count: int) -> float:
        parts = tuple((v * s / count, count) for v, s in estimate.seed_variances)
        return Estimate(0.0, 0.0001, parts, 0.0, 400).half_width()

    assert with_seeds(3 + more) <= 0.1 < with_seeds(2 + more)
    assert seeds_for_half_width(Estimate(0.0, 0.01, ((0.05, 3), (0.02, 3)), 0.0, 400), 3, 0.1) is None  # too few items
    assert seeds_for_half_width(Estimate(0.0, 0.01), 1, 0.1) is None  # one seed has no variance over seeds


def test_significant_or_close_pairs_are_conclusive():
    random = np.random.default_rng(8)
    apart = quick(random_scores(random, 2, 5, 400, seed=0.05, shift=(3.0, 2.0)))
    assert apart.pairs[0].significant
    assert not apart.pairs[0].inconclusive
    close = quick(random_scores(random, 2, 5, 4000, item=0.0, taste=0.0, seed=0.0, both=0.1, shift=(2.0, 2.0)))
    assert close.margin == pytest.approx(0.2, rel=0.02)
    assert not close.pairs[0].inconclusive


def test_intervals_are_clipped_to_the_range_of_the_metric():
    few = random_scores(np.random.default_rng(9), 2, 2, 30, seed=0.5, shift=(0.2, 0.9))
    free, clipped = quick(few), quick(few, maximum=1.2)
    assert min(s.low for s in free.estimates) < 0
    assert max(s.high for s in free.estimates) > 1.2
    assert all(0 <= s.low <= s.high <= 1.2 for s in clipped.estimates)
    assert free.pairs[0].high - free.pairs[0].low > 2.4
    assert (clipped.pairs[0].low, clipped.pairs[0].high) == (-1.2, 1.2)
    assert clipped.pairs[0].p == free.pairs[0].p


def test_an_accuracy_of_one_is_uncertain():
    low, high = clipped_interval(Estimate(1.0, 0.0, (), 0.0, 50), is_fraction=True)
    assert high == 1.0
    assert low == pytest.approx(50 / (50 + stats.t.isf(0.025, 49) ** 2))  # Wilson's, by hand


@pytest.mark.parametrize(("p", "n", "seeds"), [(0.99, 200, 1), (0.9, 60, 1), (0.5, 100, 3), (0.98, 200, 3)])
def test_intervals_of_fractions_contain_the_truth_near_one(p, n, seeds):
    """Each item has its own probability of being correct, and each run samples it."""
    random, trials, hits = np.random.default_rng(9), 400, 0
    for _ in range(trials):
        each = random.beta(20 * p, 20 * (1 - p), n)
        right = (random.random((seeds, n)) < each).astype(float)
        result = quick({"a": np.stack([right, np.ones_like(right)], -1)}, is_fraction=True, is_mean=True).estimates[0]
        assert 0 <= result.low <= result.mean <= result.high <= 1
        hits += result.low <= p <= result.high
    assert 0.95 - 3 * (0.05 * 0.95 / trials) ** 0.5 <= hits / trials <= 0.999


def test_a_metric_of_sums_that_is_not_a_mean():
    """Perplexity: items are resampled, and the metric is computed from their sums."""
    random = np.random.default_rng(7)
    words = random.integers(5, 20, 200)
    loss = random.gamma(2.0, 1.0, (3, 200)) * words
    stats_per_item = np.stack([loss, np.broadcast_to(words, loss.shape)], -1)
    result = analyse({"a": stats_per_item}, lambda s: np.exp(s[..., 0] / s[..., 1]), better="min").estimates[0]
    assert result.values == pytest.approx(np.exp(loss.sum(1) / words.sum()).tolist())
    assert result.low < result.mean < result.high


def test_the_analysis_is_deterministic():
    scores = random_scores(np.random.default_rng(8), 4, 3, 80)
    assert analyse(scores, mean) == analyse(scores, mean)


def test_different_items_raise():
    with pytest.raises(UserError, match="same test items"):
        analyse({"a": np.ones((1, 5, 2)), "b": np.ones((1, 6, 2))}, mean)


@given(st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=12))
def test_holm_is_monotone_and_between_none_and_bonferroni(p):
    result = holm(p)
    for i, j in combinations(range(len(p)), 2):
        if p[i] < p[j]:
            assert result[i] <= result[j]
    for one, corrected in zip(p, result, strict=True):
        assert one <= corrected <= min(1.0, len(p) * one) + 1e-12
    assert min(result) == pytest.approx(min(1.0, len(p) * min(p)))


@given(st.data())
def test_losers_rank_behind_winners(data):
    names = [f"d{i}" for i in range(data.draw(st.integers(1, 7)))]
    wins = [pair for pair in combinations(names, 2) if data.draw(st.booleans())]  # better first: no cycles
    result = rank_designs(names, wins)
    assert all(result[a] < result[b] for a, b in wins)
    assert result[names[0]] == 1
    assert set(result.values()) == set(range(1, max(result.values()) + 1))  # no rank is left out
    for a, b in combinations(names, 2):
        if result[a] == result[b]:
            assert (a, b) not in wins


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16), st.integers(1, 4), st.integers(1, 4), st.integers(2, 30))
def test_sign_and_scale_do_not_matter(seed, designs, seeds, n):
    scores = random_scores(np.random.default_rng(seed), designs, seeds, n)
    original = quick(scores)
    negated = quick(
        {name: np.stack([-values[..., 0], values[..., 1]], -1) for name, values in scores.items()}, better="min"
    )
    assert [s.name for s in original.estimates] == [s.name for s in negated.estimates]
    assert [s.rank for s in original.estimates] == [s.rank for s in negated.estimates]
    larger = quick({name: values * [1000.0, 1.0] for name, values in scores.items()})
    assert [p.p for p in larger.pairs] == pytest.approx([p.p for p in original.pairs], rel=1e-6)
    for estimate in original.estimates:
        assert estimate.low <= estimate.mean <= estimate.high
