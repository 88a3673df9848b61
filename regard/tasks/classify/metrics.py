"""Metrics of classifiers.

    one label         accuracy; macro-F1, the mean F1 of the classes that occur; mean negative log-likelihood
    several labels    subset accuracy (all labels of a document correct); micro-F1 over all pairs of document and label;
                      macro-F1; mean binary cross-entropy. A label is predicted if its probability is at least 1/2.

F1 = 2 · correct / (predicted + actual).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.labels import THRESHOLD

EPSILON = 1e-12


def compute_metrics(probabilities: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Compute the metrics of a data set.

    Args:
        probabilities: (n, classes).
        targets: Class numbers (n,), or 0/1 for each class (n, classes).
    """
    correct, predicted, actual = _count_per_class(probabilities, targets)
    occurs = actual > 0
    f1 = 2 * correct[occurs] / np.maximum(predicted[occurs] + actual[occurs], 1)
    macro_f1 = float(f1.mean()) if occurs.any() else 0.0
    if targets.ndim == 2:
        likelihood = np.clip(np.where(targets > 0, probabilities, 1 - probabilities), EPSILON, 1)
        return {
            "subset_accuracy": float(((probabilities >= THRESHOLD) == (targets > 0)).all(1).mean()),
            "micro_f1": float(2 * correct.sum() / max(1, predicted.sum() + actual.sum())),
            "macro_f1": macro_f1,
            "loss": float(-np.log(likelihood).mean()),
        }
    likelihood = probabilities[np.arange(len(targets)), targets]
    return {
        "accuracy": float((probabilities.argmax(1) == targets).mean()),
        "macro_f1": macro_f1,
        "loss": float(-np.log(np.maximum(likelihood, EPSILON)).mean()),
    }


def per_class_metrics(
    probabilities: np.ndarray, targets: np.ndarray, classes: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Support, precision, recall and F1 of each class. Arguments as for `compute_metrics`."""
    counts = (array.tolist() for array in _count_per_class(probabilities, targets))
    return {
        name: {
            "support": actual,
            "precision": correct / max(1, predicted),
            "recall": correct / max(1, actual),
            "f1": 2 * correct / max(1, predicted + actual),
        }
        for name, correct, predicted, actual in zip(classes, *counts, strict=True)
    }


def most_frequent_accuracy(targets: np.ndarray) -> float:
    """The accuracy of always predicting the most frequent class."""
    return float(np.bincount(targets).max() / len(targets))


def _count_per_class(probabilities: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often each class is correctly predicted, predicted, and actual; each (classes,)."""
    num_classes = probabilities.shape[1]
    if targets.ndim == 2:
        predicted, actual = probabilities >= THRESHOLD, targets > 0
        return (predicted & actual).sum(0), predicted.sum(0), actual.sum(0)
    predictions = probabilities.argmax(1)
    correct = np.bincount(targets[predictions == targets], minlength=num_classes)
    return correct, np.bincount(predictions, minlength=num_classes), np.bincount(targets, minlength=num_classes)
