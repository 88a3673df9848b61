"""Calibrated confidence, and when to abstain.

    P(correct) = P(known) · P(correct | known)        each σ(w · signals + b) (Platt 1999), fitted on held-out people

P(known) is fitted on the held-out people against unknown names. P(correct | known) is fitted on the held-out people
alone. Expected calibration error (Naeini et al. 2015): Σ over bins of (fraction of answers) · |accuracy - confidence|.
Risk and coverage (El-Yaniv & Wiener 2010): how many answers are above a threshold, and how many of these are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

BINS = 10
CURVE_POINTS = 20
"""Points of the risk-coverage curve."""
DEFAULT_THRESHOLD = 0.5
"""The model answers where it is more likely right than wrong."""
CORRECT_FRACTION = 0.9
"""Default fraction of correct answers above `threshold_for_correct`."""


@dataclass(frozen=True)
class PlattScaling:
    """σ(weights · (signals - mean) / scale + bias)."""

    weights: list[float]
    bias: float
    mean: list[float]
    scale: list[float]

    def __call__(self, signals: np.ndarray) -> np.ndarray:
        z = (signals - np.array(self.mean)) / np.array(self.scale) @ np.array(self.weights) + self.bias
        return 1 / (1 + np.exp(-np.clip(z, -30, 30)))


@dataclass(frozen=True)
class Calibration:
    """Maps signals of answers, (n, signals), to the probability that they are correct, (n,).

    Attributes:
        known: Probability that the name is known.
        correct: Probability that the answer is correct if the name is known.
        confidences: Confidences of the held-out people.
        hits: Whether their answers are correct.
        unknown_confidences: Confidences of unknown names.
    """

    known: PlattScaling
    correct: PlattScaling
    confidences: list[float]
    hits: list[bool]
    unknown_confidences: list[float]

    def __call__(self, signals: np.ndarray) -> np.ndarray:
        signals = np.asarray(signals, float)
        return self.known(signals) * self.correct(signals)

    def threshold(self, risk: float | None) -> float:
        """Return the minimum confidence of an answer.

        With `risk`, at most this fraction of the answers to the held-out people is wrong. Without, it is 0.5.
        """
        return DEFAULT_THRESHOLD if risk is None else threshold_for_risk(self.confidences, self.hits, risk)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> Calibration:
        lists = (tree[name] for name in ("confidences", "hits", "unknown_confidences"))
        return cls(PlattScaling(**tree["known"]), PlattScaling(**tree["correct"]), *lists)


def fit_calibration(signals: np.ndarray, hits: Sequence[bool], unknown_signals: np.ndarray) -> Calibration:
    """Fit a calibration.

    Args:
        signals: Signals of the held-out people, (n, signals).
        hits: Whether their answers are correct.
        unknown_signals: Signals of unknown names, (m, signals); m may be 0.
    """
    n, m = len(signals), len(unknown_signals)
    combined = np.concatenate([signals, unknown_signals]) if m else signals
    # Unknown names have the same total weight as the people, so that confidence does not depend on their number.
    weights = [1.0] * n + [n / m] * m if m else None
    known = _fit_platt(combined, [True] * n + [False] * m, weights)
    correct = _fit_platt(signals, hits)
    calibration = Calibration(known, correct, [], list(map(bool, hits)), [])
    unknown_confidences = calibration(unknown_signals).tolist() if m else []
    return Calibration(known, correct, calibration(signals).tolist(), calibration.hits, unknown_confidences)


def reliability(confidences: Sequence[float], hits: Sequence[bool], bins: int = BINS) -> list[dict[str, float]]:
    """Return a row for each non-empty bin of confidence: count, mean confidence, accuracy and its Wilson interval."""
    c, h = np.asarray(confidences, float), np.asarray(hits, float)
    bin_index = np.clip((c * bins).astype(int), 0, bins - 1)
    rows = []
    for b in range(bins):
        in_bin = bin_index == b
        count, correct = int(in_bin.sum()), int(h[in_bin].sum())
        if not count:
            continue
        low, high = wilson_interval(correct, count)
        rows.append(
            {
                "from": b / bins,
                "to": (b + 1) / bins,
                "count": count,
                "confidence": float(c[in_bin].mean()),
                "right": float(h[in_bin].mean()),
                "low": low,
                "high": high,
            }
        )
    return rows


def expected_calibration_error(confidences: Sequence[float], hits: Sequence[bool], bins: int = BINS) -> float:
    """Return the expected calibration error."""
    rows = reliability(confidences, hits, bins)
    return sum(r["count"] * abs(r["confidence"] - r["right"]) for r in rows) / max(len(confidences), 1)


def risk_coverage_curve(
    confidences: Sequence[float], hits: Sequence[bool], unknown: Sequence[float] = (), points: int = CURVE_POINTS
) -> list[dict[str, float]]:
    """Return risk and coverage at several thresholds, from few answers to all.

    Each row has the fraction of questions answered, the fraction of wrong answers among these (risk), the fraction of
    correct answers that are given, and the fraction of unknown names that are answered.

    Args:
        confidences: Confidences; negative where there is no answer.
        hits: Whether the answers are correct.
        unknown: Confidences of unknown names.
        points: Maximum number of rows.
    """
    c, h, u = np.asarray(confidences, float), np.asarray(hits, bool), np.asarray(unknown, float)
    ranked = np.sort(c[c >= 0])[::-1]
    indices = np.unique(np.ceil(np.arange(1, points + 1) / points * len(ranked)).astype(int)) - 1
    rows = []
    for threshold in dict.fromkeys(ranked[indices].tolist() if len(ranked) else []):
        answered = c >= threshold
        rows.append(
            {
                "threshold": threshold,
                "answered": float(answered.mean()),
                "risk": float((answered & ~h).sum() / answered.sum()),
                "correct_answered": float((answered & h).sum() / max(h.sum(), 1)),
                "unknown_answered": float((u >= threshold).mean()) if len(u) else 0.0,
            }
        )
    return rows


def risk_coverage_area(confidences: Sequence[float], hits: Sequence[bool]) -> float:
    """Return the area under the risk-coverage curve, the mean risk over all thresholds (Geifman et al. 2019).

    If confidence is uninformative, it equals the fraction of wrong answers.
    """
    c, h = np.asarray(confidences, float), np.asarray(hits, bool)
    thresholds, indices, counts = np.unique(c[c >= 0], return_inverse=True, return_counts=True)
    wrong = np.bincount(indices, ~h[c >= 0], len(thresholds)) if len(thresholds) else np.zeros(0)
    risks = np.cumsum(wrong[::-1]) / np.maximum(np.cumsum(counts[::-1]), 1)
    return float((risks * counts[::-1]).sum() / max(counts.sum(), 1))


def threshold_for_correct(
    confidences: Sequence[float], hits: Sequence[bool], fraction: float = CORRECT_FRACTION
) -> float:
    """Return the highest threshold above which this fraction of the correct answers is."""
    correct = np.sort(np.asarray(confidences, float)[np.asarray(hits, bool)])[::-1]
    return float(correct[int(np.ceil(fraction * len(correct))) - 1]) if len(correct) else 1.0


def threshold_for_risk(confidences: Sequence[float], hits: Sequence[bool], risk: float) -> float:
    """Return the lowest threshold at which at most this fraction of the answers is wrong; 1 if there is none."""
    c, h = np.asarray(confidences, float), np.asarray(hits, bool)
    ranking = np.argsort(-c, kind="stable")
    risks = np.cumsum(~h[ranking]) / np.arange(1, len(c) + 1)
    allowed = np.flatnonzero(risks <= risk)
    return float(c[ranking[allowed[-1]]]) if len(allowed) else 1.0


def wilson_interval(count: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % confidence interval of a fraction (Wilson 1927)."""
    p = count / n
    center, half = (p + z * z / (2 * n)), z * float(p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, (center - half) / (1 + z * z / n)), min(1.0, (center + half) / (1 + z * z / n))


def _fit_platt(signals: np.ndarray, hits: Sequence[bool], weights: Sequence[float] | None = None) -> PlattScaling:
    """Fit a logistic regression on standardized signals. If all targets are equal, return a constant (Laplace)."""
    from sklearn.linear_model import LogisticRegression

    x, y = np.asarray(signals, float), np.asarray(hits, bool)
    mean, scale = x.mean(0), x.std(0) + 1e-6
    if y.all() or not y.any():
        fraction = (y.sum() + 1) / (len(y) + 2)
        return PlattScaling([0.0] * x.shape[1], float(np.log(fraction / (1 - fraction))), mean.tolist(), scale.tolist())
    model = LogisticRegression(C=1.0, max_iter=1000).fit((x - mean) / scale, y, sample_weight=weights)
    return PlattScaling(model.coef_[0].tolist(), float(model.intercept_[0]), mean.tolist(), scale.tolist())
