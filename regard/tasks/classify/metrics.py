"""How good predictions are: one class for each document, or any number of labels.

    one      accuracy; macro-F1, the mean of F1 over the classes that occur; the mean negative log-likelihood
    many     subset accuracy (all labels of a document right); micro-F1 over all pairs of document and label; macro-F1;
             the mean binary cross entropy. A label is given from a probability of one half on.

F1 = 2 · right / (said + true).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.labels import THRESHOLD

TINY = 1e-12


def measures(chances: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """chances (n, classes); truth: class numbers (n,) or memberships (n, classes)."""
    right, said, true = _counts(chances, truth)
    seen = true > 0
    macro = float((2 * right[seen] / np.maximum(said[seen] + true[seen], 1)).mean()) if seen.any() else 0.0
    if truth.ndim == 2:
        given = np.clip(np.where(truth > 0, chances, 1 - chances), TINY, 1)
        return {
            "subset_accuracy": float(((chances >= THRESHOLD) == (truth > 0)).all(1).mean()),
            "micro_f1": float(2 * right.sum() / max(1, said.sum() + true.sum())),
            "macro_f1": macro,
            "loss": float(-np.log(given).mean()),
        }
    given = chances[np.arange(len(truth)), truth]
    return {
        "accuracy": float((chances.argmax(1) == truth).mean()),
        "macro_f1": macro,
        "loss": float(-np.log(np.maximum(given, TINY)).mean()),
    }


def by_class(chances: np.ndarray, truth: np.ndarray, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each class how many documents have it, and precision, recall and F1."""
    right, said, true = _counts(chances, truth)
    rows = zip(names, right.tolist(), said.tolist(), true.tolist(), strict=True)
    return {
        name: {"support": t, "precision": r / max(1, s), "recall": r / max(1, t), "f1": 2 * r / max(1, s + t)}
        for name, r, s, t in rows
    }


def most_frequent(truth: np.ndarray) -> float:
    """The accuracy of always saying the class that is most frequent here."""
    return float(np.bincount(truth).max() / len(truth))


def _counts(chances: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each class: rightly said, said, true."""
    classes = chances.shape[1]
    if truth.ndim == 2:
        said, true = chances >= THRESHOLD, truth > 0
        return (said & true).sum(0), said.sum(0), true.sum(0)
    guess = chances.argmax(1)
    right = np.bincount(truth[guess == truth], minlength=classes)
    return right, np.bincount(guess, minlength=classes), np.bincount(truth, minlength=classes)
