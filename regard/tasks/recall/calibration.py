"""From what a model gives to a chance of being right, and from there to when it should not answer.

    P(right) = P(known) · P(right | known)        each σ(w · signals + b) (Platt 1999), fitted on people set aside

P(known) is fitted on the people set aside against strangers, that is names that nobody has; P(right | known) on the
former alone. Expected calibration error (Naeini et al. 2015): Σ over bins of (share of answers) · |right - confidence|.
Risk against coverage (El-Yaniv & Wiener 2010): of the answers above a level, how many there are and how many are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

BINS = 10
LEVELS = 20
"""Points of the curve of risk against coverage."""
HALF = 0.5
"""The usual level: it answers where it is rather right than wrong."""
KEEP = 0.9
"""The share of right answers that `keeping` keeps."""


@dataclass(frozen=True)
class Line:
    """σ(weights · (signals - centre) / scale + bias)."""

    weights: list[float]
    bias: float
    centre: list[float]
    scale: list[float]

    def __call__(self, signals: np.ndarray) -> np.ndarray:
        z = (signals - np.array(self.centre)) / np.array(self.scale) @ np.array(self.weights) + self.bias
        return 1 / (1 + np.exp(-np.clip(z, -30, 30)))


@dataclass(frozen=True)
class Calibration:
    """`known` and `right` over the same signals. What the people set aside got: confidences and whether they were
    right; and the confidences of strangers."""

    known: Line
    right: Line
    confidences: list[float]
    hits: list[bool]
    strangers: list[float]

    def __call__(self, signals: np.ndarray) -> np.ndarray:
        signals = np.asarray(signals, float)
        return self.known(signals) * self.right(signals)

    def level(self, risk: float | None) -> float:
        """The least confidence at which an answer is given. With a risk, the share of wrong answers among those given
        to the people set aside is at most that; without one it is 0.5."""
        return HALF if risk is None else below(self.confidences, self.hits, risk)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> Calibration:
        return cls(
            Line(**tree["known"]), Line(**tree["right"]), *(tree[k] for k in ("confidences", "hits", "strangers"))
        )


def calibrate(signals: np.ndarray, hits: Sequence[bool], strangers: np.ndarray) -> Calibration:
    """Fit to the signals of the people set aside (n, s), whether each was answered rightly, and to those of strangers
    (m, s)."""
    both = np.concatenate([signals, strangers]) if len(strangers) else signals
    # strangers together weigh as much as the people, however many were drawn: confidence must not hang on that
    weights = [1.0] * len(signals) + [len(signals) / len(strangers)] * len(strangers) if len(strangers) else None
    known = _fit(both, [True] * len(signals) + [False] * len(strangers), weights)
    right = _fit(signals, hits)
    made = Calibration(known, right, [], list(map(bool, hits)), [])
    own, others = made(signals).tolist(), made(strangers).tolist() if len(strangers) else []
    return Calibration(known, right, own, made.hits, others)


def reliability(confidences: Sequence[float], hits: Sequence[bool], bins: int = BINS) -> list[dict[str, float]]:
    """For each bin of confidence that holds answers: how many, their mean confidence, the share that is right and its
    95 % interval (Wilson 1927)."""
    c, h = np.asarray(confidences, float), np.asarray(hits, float)
    which = np.clip((c * bins).astype(int), 0, bins - 1)
    return [
        {
            "from": b / bins,
            "to": (b + 1) / bins,
            "count": int((which == b).sum()),
            "confidence": float(c[which == b].mean()),
            "right": float(h[which == b].mean()),
            **dict(zip(("low", "high"), interval(int(h[which == b].sum()), int((which == b).sum())), strict=True)),
        }
        for b in range(bins)
        if (which == b).any()
    ]


def error(confidences: Sequence[float], hits: Sequence[bool], bins: int = BINS) -> float:
    """The expected calibration error."""
    rows = reliability(confidences, hits, bins)
    return sum(r["count"] * abs(r["confidence"] - r["right"]) for r in rows) / max(len(confidences), 1)


def abstention(
    confidences: Sequence[float], hits: Sequence[bool], strangers: Sequence[float] = (), count: int = LEVELS
) -> list[dict[str, float]]:
    """Risk against coverage, from few answers to all: at each level the share answered, the share of wrong ones among
    them, the share of right answers kept, and the share of strangers that are answered. Below 0 nothing was said."""
    c, h, s = np.asarray(confidences, float), np.asarray(hits, bool), np.asarray(strangers, float)
    said = np.sort(c[c >= 0])[::-1]
    places = np.unique(np.ceil(np.arange(1, count + 1) / count * len(said)).astype(int)) - 1
    rows = []
    for level in dict.fromkeys(said[places].tolist() if len(said) else []):
        given = c >= level
        row = {"level": level, "answered": float(given.mean()), "risk": float((given & ~h).sum() / given.sum())}
        row["kept"] = float((given & h).sum() / max(h.sum(), 1))
        rows.append({**row, "strangers": float((s >= level).mean()) if len(s) else 0.0})
    return rows


def area(confidences: Sequence[float], hits: Sequence[bool]) -> float:
    """Under the curve of risk against coverage: the risk, in the mean over all levels (Geifman et al. 2019). Where
    confidence tells nothing it is the share of wrong answers."""
    c, h = np.asarray(confidences, float), np.asarray(hits, bool)
    levels, which, each = np.unique(c[c >= 0], return_inverse=True, return_counts=True)
    wrong = np.bincount(which, ~h[c >= 0], len(levels)) if len(levels) else np.zeros(0)
    risks = np.cumsum(wrong[::-1]) / np.maximum(np.cumsum(each[::-1]), 1)
    return float((risks * each[::-1]).sum() / max(each.sum(), 1))


def keeping(confidences: Sequence[float], hits: Sequence[bool], share: float = KEEP) -> float:
    """The highest level that keeps this share of the right answers."""
    right = np.sort(np.asarray(confidences, float)[np.asarray(hits, bool)])[::-1]
    return float(right[int(np.ceil(share * len(right))) - 1]) if len(right) else 1.0


def below(confidences: Sequence[float], hits: Sequence[bool], risk: float) -> float:
    """The lowest level at which at most this share of the answers given is wrong; above every confidence where there
    is none."""
    c, h = np.asarray(confidences, float), np.asarray(hits, bool)
    order = np.argsort(-c, kind="stable")
    wrong = np.cumsum(~h[order]) / np.arange(1, len(c) + 1)
    fits = np.flatnonzero(wrong <= risk)
    return float(c[order[fits[-1]]]) if len(fits) else 1.0


def interval(part: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    p = part / n
    middle, half = (p + z * z / (2 * n)), z * float(p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))


def _fit(signals: np.ndarray, hits: Sequence[bool], weights: Sequence[float] | None = None) -> Line:
    """Logistic regression on signals of unit size; where all are right, or none, the share with one more of each."""
    from sklearn.linear_model import LogisticRegression

    x, y = np.asarray(signals, float), np.asarray(hits, bool)
    centre, scale = x.mean(0), x.std(0) + 1e-6
    if y.all() or not y.any():
        share = (y.sum() + 1) / (len(y) + 2)
        return Line([0.0] * x.shape[1], float(np.log(share / (1 - share))), centre.tolist(), scale.tolist())
    made = LogisticRegression(C=1.0, max_iter=1000).fit((x - centre) / scale, y, sample_weight=weights)
    return Line(made.coef_[0].tolist(), float(made.intercept_[0]), centre.tolist(), scale.tolist())
