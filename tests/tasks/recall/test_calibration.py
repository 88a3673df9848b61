"""Confidence that can be believed: fitted, measured, and used to keep silent."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.tasks.recall.calibration import Calibration, abstention, area, below, calibrate, error, keeping, reliability


def signals(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right with the chance σ(2x); strangers have another second signal."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=n)
    hits = draw.random(n) < 1 / (1 + np.exp(-2 * x))
    known = np.stack([x, draw.normal(3, 1, n)], 1)
    return known, hits, np.stack([draw.normal(size=500), draw.normal(-3, 1, 500)], 1)


def test_what_is_fitted_is_calibrated():
    x, hits, strange = signals()
    made = calibrate(x, hits.tolist(), strange)
    new, new_hits, new_strange = signals(seed=1)
    assert error(made(new).tolist(), new_hits.tolist()) < 0.03
    assert made(new_strange).mean() < 0.02
    assert error(np.ones(4000).tolist(), new_hits.tolist()) > 0.3  # a boaster is found out


def test_confidence_does_not_hang_on_how_many_strangers_were_drawn():
    draw = np.random.default_rng(2)
    people, strange = draw.normal(1, 1, (200, 1)), draw.normal(-1, 1, (4000, 1))
    hits = [True] * 190 + [False] * 10
    few, many = (calibrate(people, hits, strange[:count])(people) for count in (200, 4000))
    assert np.abs(few - many).mean() < 0.03
    assert many.mean() == pytest.approx(0.95 * 0.82, abs=0.05)  # the mean of σ(2x) is 0.82 where x is N(1, 1)


def test_reliability_by_hand():
    rows = reliability([0.05, 0.95, 0.95, 0.85], [False, True, False, True])
    assert [(r["count"], r["right"]) for r in rows] == [(1, 0.0), (1, 1.0), (2, 0.5)]
    assert error([0.05, 0.95, 0.95, 0.85], [False, True, False, True]) == pytest.approx((0.05 + 0.15 + 2 * 0.45) / 4)


def test_intervals_hold_the_share():
    """By hand (Wilson 1927): 8 of 10 lies in 0.490 to 0.943, 0 of 1 in 0 to 0.793."""
    row = reliability([0.55] * 10, [True] * 8 + [False] * 2)[0]
    assert (row["low"], row["high"]) == (pytest.approx(0.490, abs=1e-3), pytest.approx(0.943, abs=1e-3))
    one = reliability([0.55], [False])[0]
    assert (one["low"], one["high"]) == (0.0, pytest.approx(0.793, abs=1e-3))


def test_abstention_by_hand():
    sure, hits = [0.9, 0.8, 0.8, 0.5, -1.0], [True, False, True, True, False]  # the last one says nothing
    rows = abstention(sure, hits, [0.85, 0.1, -1.0, -1.0], 4)
    assert [row["level"] for row in rows] == [0.9, 0.8, 0.5]  # equal confidences are answered together
    assert [row["answered"] for row in rows] == [0.2, 0.6, 0.8]
    assert [row["risk"] for row in rows] == [0.0, pytest.approx(1 / 3), 0.25]
    assert [row["kept"] for row in rows] == [pytest.approx(1 / 3), pytest.approx(2 / 3), 1.0]
    assert [row["strangers"] for row in rows] == [0.0, 0.25, 0.25]
    assert abstention([-1.0], [False]) == []


def test_the_area_under_the_risk():
    assert area([0.9, 0.8, 0.7, 0.6], [True, True, True, False]) == pytest.approx(0.25 / 4)
    assert area([0.5] * 4, [True, True, True, False]) == 0.25  # confidence that tells nothing
    assert area([0.9, 0.8, 0.7, 0.6], [False, True, True, True]) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert area([-1.0], [False]) == 0.0


def test_levels_by_hand():
    sure, hits = [0.9, 0.8, 0.7, 0.6, 0.5], [True, True, False, True, False]
    assert keeping(sure, hits, 0.6) == 0.8
    assert keeping(sure, hits, 1.0) == 0.6
    assert below(sure, hits, 0.0) == 0.8
    assert below(sure, hits, 0.25) == 0.6
    assert below([0.9], [False], 0.1) == 1.0


def test_one_sided_and_saved():
    x, _, strange = signals(50)
    made = calibrate(x, [True] * 50, strange[:0])
    assert np.isfinite(made(x)).all()
    again = Calibration.from_dict(json.loads(json.dumps(made.as_dict())))
    assert (again(x) == made(x)).all()
