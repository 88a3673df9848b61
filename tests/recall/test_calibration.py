"""Confidence that can be believed: fitted, measured, and used to keep silent."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.recall.calibration import Calibration, below, calibrate, error, keeping, reliability


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


def test_reliability_by_hand():
    rows = reliability([0.05, 0.95, 0.95, 0.85], [False, True, False, True])
    assert [(r["count"], r["right"]) for r in rows] == [(1, 0.0), (1, 1.0), (2, 0.5)]
    assert error([0.05, 0.95, 0.95, 0.85], [False, True, False, True]) == pytest.approx((0.05 + 0.15 + 2 * 0.45) / 4)


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
