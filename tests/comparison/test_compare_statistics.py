"""What is said of designs is right as often as it claims: checked on data drawn by chance, whose truth is known."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from regard.comparison.statistics import Spread, analyse, bounds, holm, narrowed, ranks, wanted
from regard.errors import UserError


def mean(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def drawn(random, designs: int, seeds: int, n: int, *, item=1.0, taste=0.3, seed=0.1, both=0.5, shift=()) -> dict:
    """Items differ (all designs alike, and each in its own way), seeds differ, and so do seeds on single items."""
    common = item * random.normal(size=n)
    found = {}
    for d in range(designs):
        values = common + taste * random.normal(size=n) + seed * random.normal(size=(seeds, 1))
        values = values + both * random.normal(size=(seeds, n)) + (shift[d] if shift else 0.0)
        found[f"d{d}"] = np.stack([values, np.ones_like(values)], -1)
    return found


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
def test_designs_that_are_the_same_are_seldom_told_apart(seeds, taste, seed, both):
    random, trials = np.random.default_rng(0), 300
    told = sum(
        quick(drawn(random, 2, seeds, 150, taste=taste, seed=seed, both=both)).pairs[0].apart for _ in range(trials)
    )
    assert told / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
    if seeds >= 3 and (taste or seed):
        assert told / trials >= 0.01  # a test that never speaks would pass, and be of no use


def test_among_many_pairs_one_false_word_is_as_rare():
    random, trials = np.random.default_rng(1), 150
    wrong = sum(any(p.apart for p in quick(drawn(random, 5, 4, 120)).pairs) for _ in range(trials))
    assert wrong / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_seeds_that_are_forgotten_would_be_told():
    """The same with a test over items alone, which is what most tables do: it speaks far too often."""
    random, told = np.random.default_rng(2), 0
    for _ in range(200):
        made = drawn(random, 2, 3, 150, taste=0.0, seed=0.3, both=0.2)
        a, b = (made[name][..., 0].mean(0) for name in made)
        told += stats.ttest_rel(a, b).pvalue < 0.05
    assert told / 200 > 0.3


@pytest.mark.parametrize(("seeds", "seed"), [(2, 0.3), (2, 0.0), (3, 0.1), (3, 0.5), (5, 0.0), (5, 0.3)])
def test_intervals_hold_the_truth(seeds, seed):
    random, trials = np.random.default_rng(3), 400
    found = [quick(drawn(random, 1, seeds, 100, seed=seed)).standings[0] for _ in range(trials)]
    share = np.mean([s.low <= 0 <= s.high for s in found])
    assert share >= 0.95 - 3 * (0.05 * 0.95 / trials) ** 0.5
    assert share <= 0.998


def test_intervals_of_differences_hold_the_truth_and_true_differences_are_found():
    random, trials = np.random.default_rng(4), 300
    found = [quick(drawn(random, 2, 5, 150, shift=(0.6, 0.0))).pairs[0] for _ in range(trials)]
    assert np.mean([p.low <= 0.6 <= p.high for p in found]) == pytest.approx(0.95, abs=0.05)
    assert np.mean([p.apart for p in found]) > 0.9


def test_where_few_items_differ_chance_is_counted_out():
    """Five items of a hundred, all in favour of one: 2 / 2^5 of all ways to deal them out are as far apart."""
    a, b = np.ones((1, 100, 2)), np.ones((1, 100, 2))
    b[0, :5, 0] = 0
    pair = analyse({"a": a, "b": b}, mean, share=True, linear=True).pairs[0]
    assert pair.p == pytest.approx(2 / 32)
    assert not pair.apart
    b[0, :12, 0] = 0
    assert analyse({"a": a, "b": b}, mean, share=True, linear=True).pairs[0].apart


def test_few_right_answers_more_are_seldom_told():
    """Shares of right answers, on few items, one seed: the two designs are the same model trained twice."""
    random, told, trials = np.random.default_rng(5), 0, 400
    for _ in range(trials):
        hard = random.random(80) < 0.9
        runs = [np.where(random.random(80) < 0.06, ~hard, hard).astype(float) for _ in range(2)]
        made = {f"d{i}": np.stack([run, np.ones(80)], -1)[None] for i, run in enumerate(runs)}
        told += analyse(made, mean, share=True, linear=True, resamples=200).pairs[0].apart
    assert told / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_seeds_that_are_wanted_are_enough():
    """With as many seeds as it asks for, the pair is told apart about as often as promised."""
    spread = Spread(0.2, 0.001, ((0.02, 4), (0.02, 4)), 0.0001, 400)
    more, items = wanted(spread, 4, 0.05)
    assert items is None
    assert more is not None
    random, told = np.random.default_rng(6), 0
    seeds, trials = 4 + more, 300
    for _ in range(trials):
        a, b = (random.normal(size=seeds) * (0.08**0.5) for _ in range(2))
        d = 0.2 + random.normal() * 0.0009**0.5 + a.mean() - b.mean()
        parts = ((a.var(ddof=1) / seeds, seeds), (b.var(ddof=1) / seeds, seeds))
        told += Spread(d, 0.0009, parts, 0.0, 400).p < 0.05
    assert told / trials == pytest.approx(0.8, abs=0.08)


def test_more_items_are_wanted_where_seeds_cannot_help():
    more, items = wanted(Spread(0.01, 0.0004, ((1e-9, 3), (1e-9, 3)), 0.0, 1000), 3, 0.05)
    assert more is None
    assert items == pytest.approx(1000 * 4 * (1.96 + 0.8416) ** 2, rel=0.01)
    assert wanted(Spread(0.0, 0.1, (), 0.0, 10), 1, 0.05) == (None, None)


def test_seeds_that_narrow_an_interval_are_enough():
    """With as many more as it says the interval reaches no further than asked for, and with one less it does."""
    random = np.random.default_rng(7)
    few = drawn(random, 2, 3, 2000, seed=0.5, taste=0.0, shift=(2.0, 2.0))
    pair = quick(few).pairs[0]
    assert pair.wide
    assert pair.narrow is not None
    spread = Spread(0.0, 0.0001, ((0.05, 3), (0.02, 3)), 0.0, 400)
    more = narrowed(spread, 3, 0.1)
    assert more is not None

    def with_seeds(count: int) -> float:
        parts = tuple((v * s / count, count) for v, s in spread.seeds)
        return Spread(0.0, 0.0001, parts, 0.0, 400).reach()

    assert with_seeds(3 + more) <= 0.1 < with_seeds(2 + more)
    assert narrowed(Spread(0.0, 0.01, ((0.05, 3), (0.02, 3)), 0.0, 400), 3, 0.1) is None  # too few items
    assert narrowed(Spread(0.0, 0.01), 1, 0.1) is None  # one seed says nothing about seeds


def test_what_is_told_apart_or_close_is_settled():
    random = np.random.default_rng(8)
    apart = quick(drawn(random, 2, 5, 400, seed=0.05, shift=(3.0, 2.0)))
    assert apart.pairs[0].apart
    assert not apart.pairs[0].wide
    close = quick(drawn(random, 2, 5, 4000, item=0.0, taste=0.0, seed=0.0, both=0.1, shift=(2.0, 2.0)))
    assert close.margin == pytest.approx(0.2, rel=0.02)
    assert not close.pairs[0].wide


def test_intervals_end_where_the_measure_does():
    few = drawn(np.random.default_rng(9), 2, 2, 30, seed=0.5, shift=(0.2, 0.9))
    free, held = quick(few), quick(few, top=1.2)
    assert min(s.low for s in free.standings) < 0
    assert max(s.high for s in free.standings) > 1.2
    assert all(0 <= s.low <= s.high <= 1.2 for s in held.standings)
    assert free.pairs[0].high - free.pairs[0].low > 2.4
    assert (held.pairs[0].low, held.pairs[0].high) == (-1.2, 1.2)
    assert held.pairs[0].p == free.pairs[0].p


def test_all_right_is_not_certain():
    low, high = bounds(Spread(1.0, 0.0, (), 0.0, 50), share=True)
    assert high == 1.0
    assert low == pytest.approx(50 / (50 + stats.t.isf(0.025, 49) ** 2))  # Wilson's, by hand


@pytest.mark.parametrize(("p", "n", "seeds"), [(0.99, 200, 1), (0.9, 60, 1), (0.5, 100, 3), (0.98, 200, 3)])
def test_intervals_of_shares_hold_the_truth_also_near_the_end(p, n, seeds):
    """Each item is right with its own chance, and each run tosses anew."""
    random, trials, hits = np.random.default_rng(9), 400, 0
    for _ in range(trials):
        each = random.beta(20 * p, 20 * (1 - p), n)
        right = (random.random((seeds, n)) < each).astype(float)
        found = quick({"a": np.stack([right, np.ones_like(right)], -1)}, share=True, linear=True).standings[0]
        assert 0 <= found.low <= found.mean <= found.high <= 1
        hits += found.low <= p <= found.high
    assert 0.95 - 3 * (0.05 * 0.95 / trials) ** 0.5 <= hits / trials <= 0.999


def test_a_measure_of_sums_that_is_no_mean():
    """exp of a mean loss: what is drawn are items, and the measure is of their sums."""
    random = np.random.default_rng(7)
    words = random.integers(5, 20, 200)
    loss = random.gamma(2.0, 1.0, (3, 200)) * words
    given_ = np.stack([loss, np.broadcast_to(words, loss.shape)], -1)
    found = analyse({"a": given_}, lambda s: np.exp(s[..., 0] / s[..., 1]), better="min").standings[0]
    assert found.values == pytest.approx(np.exp(loss.sum(1) / words.sum()).tolist())
    assert found.low < found.mean < found.high


def test_a_second_call_says_the_same():
    made = drawn(np.random.default_rng(8), 4, 3, 80)
    assert analyse(made, mean) == analyse(made, mean)


def test_other_items_are_refused():
    with pytest.raises(UserError, match="same items"):
        analyse({"a": np.ones((1, 5, 2)), "b": np.ones((1, 6, 2))}, mean)


@given(st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=12))
def test_holm_is_monotone_and_between_none_and_bonferroni(p):
    found = holm(p)
    for i, j in combinations(range(len(p)), 2):
        if p[i] < p[j]:
            assert found[i] <= found[j]
    for one, corrected in zip(p, found, strict=True):
        assert one <= corrected <= min(1.0, len(p) * one) + 1e-12
    assert min(found) == pytest.approx(min(1.0, len(p) * min(p)))


@given(st.data())
def test_ranks_put_the_beaten_behind(data):
    names = [f"d{i}" for i in range(data.draw(st.integers(1, 7)))]
    beats = [pair for pair in combinations(names, 2) if data.draw(st.booleans())]  # better first: no circles
    found = ranks(names, beats)
    assert all(found[a] < found[b] for a, b in beats)
    assert found[names[0]] == 1
    assert set(found.values()) == set(range(1, max(found.values()) + 1))  # no rank is left out
    for a, b in combinations(names, 2):
        if found[a] == found[b]:
            assert (a, b) not in beats


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16), st.integers(1, 4), st.integers(1, 4), st.integers(2, 30))
def test_order_and_units_change_nothing(seed, designs, seeds, n):
    made = drawn(np.random.default_rng(seed), designs, seeds, n)
    whole = quick(made)
    turned = quick(
        {name: np.stack([-values[..., 0], values[..., 1]], -1) for name, values in made.items()}, better="min"
    )
    assert [s.name for s in whole.standings] == [s.name for s in turned.standings]
    assert [s.rank for s in whole.standings] == [s.rank for s in turned.standings]
    larger = quick({name: values * [1000.0, 1.0] for name, values in made.items()})
    assert [p.p for p in larger.pairs] == pytest.approx([p.p for p in whole.pairs], rel=1e-6)
    for standing in whole.standings:
        assert standing.low <= standing.mean <= standing.high
