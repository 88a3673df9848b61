"""Labels as arrays: one class per document or any number of labels (multi-label), and class weights.

Several labels in one cell are separated by a character ("drama|war") or are a JSON list ('["drama", "war"]'). With
several labels, a document may also have none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np

from regard.errors import UserError, did_you_mean

SEPARATORS = ("|", ";", ",")
THRESHOLD = 0.5  # multi-label: a label is predicted if its probability is at least this


def find_separator(cells: Sequence[str]) -> str:
    """Return the first of | ; and , that occurs in any cell."""
    return next((s for s in SEPARATORS if any(s in cell and not _is_list(cell) for cell in cells)), SEPARATORS[0])


def split_labels(cells: Sequence[str], separator: str) -> list[tuple[str, ...]]:
    """Split each cell into its labels, without repeats, in their order."""
    if not separator:
        raise UserError(f"data.separator must be a character such as '|' or ';', got {separator!r}")
    return [tuple(dict.fromkeys(_split_cell(cell, separator))) for cell in cells]


def encode_labels(labels: Sequence[str], classes: Sequence[str], source: str = "") -> np.ndarray:
    """Return labels as class indices, (n,) int64. Raises a UserError for a label that is not in `classes`.

    Args:
        labels: One label per document.
        classes: Names of the classes.
        source: Name of the data, for the error message.
    """
    indices = _index_classes(labels, classes, source)
    return np.array([indices[label] for label in labels], np.int64)


def encode_multilabel(labels: Sequence[Sequence[str]], classes: Sequence[str], source: str = "") -> np.ndarray:
    """Return a 0/1 matrix, (n, classes) float32, that is 1 where a document has the label."""
    indices = _index_classes([name for row in labels for name in row], classes, source)
    matrix = np.zeros((len(labels), len(classes)), np.float32)
    for row, names in enumerate(labels):
        matrix[row, [indices[name] for name in names]] = 1.0
    return matrix


def rarest_labels(labels: Sequence[Sequence[str]]) -> list[str]:
    """Return the least frequent label of each document. A split stratified by it has rare labels in both parts."""
    counts = Counter(name for row in labels for name in row)
    return [min(row, key=lambda name: (counts[name], name), default="") for row in labels]


def compute_class_weights(spec: str | None, targets: np.ndarray, classes: Sequence[str]) -> np.ndarray | None:
    """Return the loss weight of each class, (classes,) float32, or None if all classes have the same weight.

    Args:
        spec: None, "balanced", or weights such as "a=1,b=4" or '{"a": 1, "b": 4}'; other classes have weight 1.
            "balanced" is n / (classes · n_c), so that all classes have the same total weight. With multi-label targets
            it is the weight of having the label against not having it, (n - n_c) / n_c.
        targets: Class indices (n,), or a multi-label matrix (n, classes).
        classes: Names of the classes.
    """
    if spec is None:
        return None
    n, counts = len(targets), count_labels(targets, len(classes))
    if spec == "balanced":
        if targets.ndim == 2:
            return ((n - counts) / np.maximum(counts, 1)).clip(min=1 / max(n, 1)).astype(np.float32)
        return (n / (len(classes) * np.maximum(counts, 1))).astype(np.float32)
    weights = np.ones(len(classes), np.float32)
    for name, value in _parse_weights(spec).items():
        if name not in classes:
            raise UserError(f"data.class_weights names {name!r}, which is not a class; {did_you_mean(name, classes)}")
        weights[list(classes).index(name)] = value
    return weights


def count_labels(targets: np.ndarray, num_classes: int) -> np.ndarray:
    """Count the documents of each class, for class indices (n,) or a multi-label matrix (n, classes)."""
    return targets.sum(0).astype(np.int64) if targets.ndim == 2 else np.bincount(targets, minlength=num_classes)


def describe_imbalance(targets: np.ndarray, classes: Sequence[str], min_ratio: float = 4.0) -> str | None:
    """Return a warning if the largest class is `min_ratio` times as large as the smallest one, otherwise None."""
    counts = count_labels(targets, len(classes))
    largest, smallest = int(counts.argmax()), int(counts.argmin())
    if targets.ndim == 2 or counts[largest] < min_ratio * max(1, counts[smallest]):
        return None
    return (
        f"classes are unbalanced: {classes[largest]!r} has {counts[largest]:,} of {len(targets):,} documents, "
        f"{classes[smallest]!r} has {counts[smallest]:,}. Always predicting {classes[largest]!r} has an accuracy of "
        f"{counts[largest] / len(targets):.1%}: look at macro_f1, or use --class-weights balanced"
    )


def _index_classes(labels: Sequence[str], classes: Sequence[str], source: str) -> dict[str, int]:
    indices = {name: i for i, name in enumerate(classes)}
    unknown = sorted({label for label in labels if label not in indices})
    if unknown:
        raise UserError(
            f"{source or 'the data'} has labels that are not in the training data: "
            f"{', '.join(map(repr, unknown[:5]))}; known labels: {', '.join(map(repr, classes[:10]))}. Correct the "
            "labels, or train on data that contains them"
        )
    return indices


def _is_list(cell: str) -> bool:
    return cell.startswith("[") and cell.endswith("]")


def _split_cell(cell: str, separator: str) -> list[str]:
    if _is_list(cell):
        try:
            return [str(name).strip() for name in json.loads(cell) if str(name).strip()]
        except ValueError:
            pass  # the brackets are part of the label
    return [name.strip() for name in cell.split(separator) if name.strip()]


def _parse_weights(spec: str) -> dict[str, float]:
    """Parse `a=1,b=4` or a JSON object."""
    message = f'data.class_weights must be balanced, none, a=1,b=4 or {{"a": 1, "b": 4}}, got {spec!r}'
    try:
        if spec.lstrip().startswith("{"):
            weights = {str(name): float(value) for name, value in json.loads(spec).items()}
        else:
            pairs = [pair.rpartition("=") for pair in spec.split(",")]
            weights = {name.strip(): float(value) for name, _, value in pairs}
    except (ValueError, TypeError, AttributeError):
        raise UserError(message) from None
    if "" in weights or not all(0 <= value < float("inf") for value in weights.values()) or not any(weights.values()):
        raise UserError(message)
    return weights
