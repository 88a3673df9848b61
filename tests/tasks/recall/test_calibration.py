"""Confidence is calibrated, and thresholds have the requested risk."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.tasks.recall.calibration import (
    Calibration,
    expected_calibration_error,
    fit_calibration,
    reliability,
    risk_coverage_area,
    risk_coverage_curve,
    threshold_for_correct,
    threshold_for_risk,
)


def generate_signals(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correct with probability σ(2x); unknown names have a different second signal."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    hits = rng.random(n) < 1 / (1 + np.exp(-2 * x))
    known = np.stack([x, rng.normal(3, 1, n)], 1)
    return known, hits, np.stack([rng.normal(size=500), rng.normal(-3, 1, 500)], 1)


def test_fitted_confidence_is_calibrated_on_new_data():
    x, hits, unknown = generate_signals()
    calibration = fit_calibration(x, hits.tolist(), unknown)
    new, new_hits, new_unknown = generate_signals(seed=1)
    assert expected_calibration_error(calibration(new).tolist(), new_hits.tolist()) < 0.03
    assert calibration(new_unknown).mean() < 0.02
    assert expected_calibration_error(np.ones(4000).tolist(), new_hits.tolist()) > 0.3  # overconfident


def test_confidence_does_not_depend_on_the_number_of_unknown_names():
    rng = np.random.default_rng(2)
    people, unknown = rng.normal(1, 1, (200, 1)), rng.normal(-1, 1, (4000, 1))
    hits = [True] * 190 + [False] * 10
    few, many = (fit_calibration(people, hits, unknown[:count])(people) for count in (200, 4000))
    assert np.abs(few - many).mean() < 0.03
    assert many.mean() == pytest.approx(0.95 * 0.82, abs=0.05)  # the mean of σ(2x) is 0.82 where x is N(1, 1)


def test_reliability_by_hand():
    rows = reliability([0.05, 0.95, 0.95, 0.85], [False, True, False, True])
    assert [(r["count"], r["right"]) for r in rows] == [(1, 0.0), (1, 1.0), (2, 0.5)]
    assert expected_calibration_error([0.05, 0.95, 0.95, 0.85], [False, True, False, True]) == pytest.approx(
        (0.05 + 0.15 + 2 * 0.45) / 4
    )


def test_wilson_intervals():
    """By hand (Wilson 1927): 8 of 10 lies in 0.490 to 0.943, 0 of 1 in 0 to 0.793."""
    row = reliability([0.55] * 10, [True] * 8 + [False] * 2)[0]
    assert (row["low"], row["high"]) == (pytest.approx(0.490, abs=1e-3), pytest.approx(0.943, abs=1e-3))
    one = reliability([0.55], [False])[0]
    assert (one["low"], one["high"]) == (0.0, pytest.approx(0.793, abs=1e-3))


def test_risk_coverage_curve_by_hand():
    confidences, hits = [0.9, 0.8, 0.8, 0.5, -1.0], [True, False, True, True, False]  # the last one has no answer
    rows = risk_coverage_curve(confidences, hits, [0.85, 0.1, -1.0, -1.0], 4)
    assert [row["threshold"] for row in rows] == [0.9, 0.8, 0.5]  # equal confidences are answered together
    assert [row["answered"] for row in rows] == [0.2, 0.6, 0.8]
    assert [row["risk"] for row in rows] == [0.0, pytest.approx(1 / 3), 0.25]
    assert [row["correct_answered"] for row in rows] == [pytest.approx(1 / 3), pytest.approx(2 / 3), 1.0]
    assert [row["unknown_answered"] for row in rows] == [0.0, 0.25, 0.25]
    assert risk_coverage_curve([-1.0], [False]) == []


def test_risk_coverage_area_by_hand():
    assert risk_coverage_area([0.9, 0.8, 0.7, 0.6], [True, True, True, False]) == pytest.approx(0.25 / 4)
    assert risk_coverage_area([0.5] * 4, [True, True, True, False]) == 0.25  # uninformative confidence
    assert risk_coverage_area([0.9, 0.8, 0.7, 0.6], [False, True, True, True]) == pytest.approx(
        (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    )
    assert risk_coverage_area([-1.0], [False]) == 0.0


def test_thresholds_by_hand():
    confidences, hits = [0.9, 0.8, 0.7, 0.6, 0.5], [True, True, False, True, False]
    assert threshold_for_correct(confidences, hits, 0.6) == 0.8
    assert threshold_for_correct(confidences, hits, 1.0) == 0.6
    assert threshold_for_risk(confidences, hits, 0.0) == 0.8
    assert threshold_for_risk(confidences, hits, 0.25) == 0.6
    assert threshold_for_risk([0.9], [False], 0.1) == 1.0


def test_all_correct_and_round_trip():
    x, _, unknown = generate_signals(50)
    calibration = fit_calibration(x, [True] * 50, unknown[:0])
    assert np.isfinite(calibration(x)).all()
    loaded = Calibration.from_dict(json.loads(json.dumps(calibration.as_dict())))
    assert (loaded(x) == calibration(x)).all()
