"""Labels as numbers: one class for each document, or any number of them, and how much each class weighs.

Several labels stand in one cell, parted by a mark ("drama|war"), or as a list in JSON ('["drama", "war"]'). A document
may then have none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np

from regard.errors import UserError, did_you_mean

SEPARATORS = ("|", ";", ",")
THRESHOLD = 0.5  # a label is given from this probability on, where there may be several


def find_separator(cells: Sequence[str]) -> str:
    """The mark that parts the labels: the first of | ; and , that stands in any cell."""
    return next((mark for mark in SEPARATORS if any(mark in cell and not _is_list(cell) for cell in cells)), SEPARATORS[0])


def split_labels(cells: Sequence[str], mark: str) -> list[tuple[str, ...]]:
    """The labels in each cell, each once, in their order."""
    if not mark:
        raise UserError(f"data.separator wants a mark such as '|' or ';' between labels, and was given {mark!r}")
    return [tuple(dict.fromkeys(_cell(cell, mark))) for cell in cells]


def encode_labels(labels: Sequence[str], classes: Sequence[str], where: str = "") -> np.ndarray:
    """Labels as class numbers (n,); one that was never seen in training is an error."""
    known = _known(labels, classes, where)
    return np.array([known[label] for label in labels], np.int64)


def encode_multilabel(labels: Sequence[Sequence[str]], classes: Sequence[str], where: str = "") -> np.ndarray:
    """(n, classes), 1 where a document has the label."""
    known = _known([name for row in labels for name in row], classes, where)
    found = np.zeros((len(labels), len(classes)), np.float32)
    for row, names in enumerate(labels):
        found[row, [known[name] for name in names]] = 1.0
    return found


def rarest_labels(labels: Sequence[Sequence[str]]) -> list[str]:
    """The least frequent label of each document: to split by it leaves rare labels on both sides."""
    often = Counter(name for row in labels for name in row)
    return [min(row, key=lambda name: (often[name], name), default="") for row in labels]


def compute_class_weights(wanted: str | None, truth: np.ndarray, classes: Sequence[str]) -> np.ndarray | None:
    """How much an example of each class weighs, (classes,), or None where all weigh alike.

    "balanced": n / (classes · n_c), so that all classes weigh the same in sum. With several labels a document, what
    weighs is having the label against not having it: (n - n_c) / n_c. "a=1,b=4" or '{"a": 1, "b": 4}' says it outright;
    a class that is not named weighs 1.
    """
    if wanted is None:
        return None
    n, count = len(truth), count_labels(truth, len(classes))
    if wanted == "balanced":
        if truth.ndim == 2:
            return ((n - count) / np.maximum(count, 1)).clip(min=1 / max(n, 1)).astype(np.float32)
        return (n / (len(classes) * np.maximum(count, 1))).astype(np.float32)
    weights = np.ones(len(classes), np.float32)
    for name, value in _spelled(wanted).items():
        if name not in classes:
            raise UserError(f"data.class_weights names {name!r}, which is no class; {did_you_mean(name, classes)}")
        weights[list(classes).index(name)] = value
    return weights


def count_labels(truth: np.ndarray, classes: int) -> np.ndarray:
    """How many documents each class has: of class numbers (n,) or memberships (n, classes)."""
    return truth.sum(0).astype(np.int64) if truth.ndim == 2 else np.bincount(truth, minlength=classes)


def describe_imbalance(truth: np.ndarray, classes: Sequence[str], least: float = 4.0) -> str | None:
    """A sentence about classes of very different sizes, or None where they are not."""
    count = count_labels(truth, len(classes))
    most, fewest = int(count.argmax()), int(count.argmin())
    if truth.ndim == 2 or count[most] < least * max(1, count[fewest]):
        return None
    return (
        f"classes are unbalanced: {classes[most]!r} has {count[most]:,} of {len(truth):,} documents, "
        f"{classes[fewest]!r} has {count[fewest]:,}. Always saying {classes[most]!r} would be right on "
        f"{count[most] / len(truth):.1%}: look at macro_f1; --class-weights balanced makes classes weigh alike"
    )


def _known(labels: Sequence[str], classes: Sequence[str], where: str) -> dict[str, int]:
    known = {name: i for i, name in enumerate(classes)}
    strange = sorted({label for label in labels if label not in known})
    if strange:
        shown = ", ".join(map(repr, strange[:5]))
        raise UserError(
            f"{where or 'the data'} has labels that training never saw: {shown}; known are "
            f"{', '.join(map(repr, classes[:10]))}. Mend the labels or train on data that has them"
        )
    return known


def _is_list(cell: str) -> bool:
    return cell.startswith("[") and cell.endswith("]")


def _cell(cell: str, mark: str) -> list[str]:
    if _is_list(cell):
        try:
            found = json.loads(cell)
            return [str(name).strip() for name in found if str(name).strip()]
        except ValueError:
            pass  # brackets of the user's own
    return [name.strip() for name in cell.split(mark) if name.strip()]


def _spelled(wanted: str) -> dict[str, float]:
    """`a=1,b=4` or a JSON object as a mapping."""
    problem = f'data.class_weights wants balanced, none, a=1,b=4 or {{"a": 1, "b": 4}}, and was given {wanted!r}'
    try:
        if wanted.lstrip().startswith("{"):
            given = {str(name): float(value) for name, value in json.loads(wanted).items()}
        else:
            pairs = [pair.rpartition("=") for pair in wanted.split(",")]
            given = {name.strip(): float(value) for name, _, value in pairs}
    except (ValueError, TypeError, AttributeError):
        raise UserError(problem) from None
    if "" in given or not all(0 <= value < float("inf") for value in given.values()) or not any(given.values()):
        raise UserError(problem)
    return given
