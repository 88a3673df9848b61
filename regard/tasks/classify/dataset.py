"""Read labelled documents, split them, and encode their texts and labels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import labels, train_valid_split
from regard.data.documents import TokenizedDocuments, encode_documents
from regard.data.read_table import Table, list_classes, read_table
from regard.data.tokenizer import Tokenizer
from regard.tasks.classify.settings import ClassifySettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassifyDataset:
    """Documents with their labels.

    Attributes:
        texts: Training documents.
        labels: Class numbers (documents,), or 0/1 for each class (documents, classes) if a document can have several.
        valid_texts: Validation documents.
        valid_labels: Their labels.
        classes: Names of the classes.
        info: For config.json.
        separator: What separates several labels in one cell; None if each document has one label.
        class_weights: (classes,) or None.
    """

    texts: list[str]
    labels: np.ndarray
    valid_texts: list[str]
    valid_labels: np.ndarray
    classes: list[str]
    info: dict[str, Any]
    separator: str | None = None
    class_weights: np.ndarray | None = None


def read_dataset(settings: ClassifySettings, source: Table | None) -> ClassifyDataset:
    """Read the table; hold out a validation part unless the settings name one."""
    data, many = settings.data, settings.data.multi_label
    table = source or read_table(data.train, text=data.text, label=data.label, multilabel=many)
    for note in table.notes:
        logger.info(note)
    cells = table.labels or []
    if not many and (hint := _hint_multilabel(cells)):
        logger.info(hint)
    separator = (labels.find_separator(cells) if data.separator is None else data.separator) if many else None
    if separator is None:
        strata, classes = cells, list_classes(cells)
    else:
        label_sets = labels.split_labels(cells, separator)
        strata = labels.rarest_labels(label_sets)
        classes = list_classes([label for label_set in label_sets for label in label_set])
        mean_count = sum(map(len, label_sets)) / len(label_sets)
        logger.info(f"{len(classes)} labels separated by {separator!r}, on average {mean_count:.1f} per document")
    targets = encode_targets(cells, classes, separator)
    if data.valid is not None:
        valid = read_table(data.valid, text=data.text, label=data.label, multilabel=many)
        for note in valid.notes:
            logger.info(f"validation: {note}")
        valid_targets = encode_targets(valid.labels or [], classes, separator, data.valid)
        texts, valid_texts = table.texts, valid.texts
        valid_info = _describe_part(valid, data.valid, len(valid_texts))
    else:
        train_rows, valid_rows = train_valid_split.split_indices(strata, data.valid_fraction, settings.seed)
        texts, valid_texts = [table.texts[i] for i in train_rows], [table.texts[i] for i in valid_rows]
        targets, valid_targets = targets[train_rows], targets[valid_rows]
        valid_info = {"rows": len(valid_texts), "split": data.valid_fraction}
        logger.info(f"{len(valid_rows):,} of {len(table.texts):,} rows held out for validation")
    repeated = train_valid_split.count_duplicates(texts, valid_texts)
    if repeated:
        logger.warning(f"{repeated:,} of the {len(valid_texts):,} validation documents are also in the training part")
    class_weights = labels.compute_class_weights(data.class_weights, targets, classes)
    if class_weights is None and (note := labels.describe_imbalance(targets, classes)):
        logger.info(note)
    train_info = _describe_part(table, data.train or "given in Python", len(texts))
    info = {"train": train_info, "valid": valid_info, "repeated": repeated}
    return ClassifyDataset(texts, targets, valid_texts, valid_targets, classes, info, separator, class_weights)


def encode_texts(texts: Sequence[str], tokenizer: Tokenizer, settings: ClassifySettings) -> TokenizedDocuments:
    """Tokenize texts as the model of these settings reads them."""
    written = bool(getattr(settings.model, "word_shape", 0))
    return encode_documents(texts, tokenizer, max_tokens=settings.data.max_tokens, word_shapes=written)


def encode_targets(cells: list[str], classes: list[str], separator: str | None, where: str = "") -> np.ndarray:
    """Encode label cells as class numbers (n,), or with a separator as 0/1 for each class (n, classes)."""
    if separator is None:
        return labels.encode_labels(cells, classes, where)
    return labels.encode_multilabel(labels.split_labels(cells, separator), classes, where)


def _hint_multilabel(cells: list[str]) -> str | None:
    """A hint if more than a tenth of the cells look like several labels in one."""
    if 10 * sum(cell.startswith("[") and cell.endswith("]") for cell in cells) > len(cells):
        return "labels are lists. If a document can have several labels, use --multi-label"
    for separator in ("|", ";"):
        if 10 * sum(separator in cell for cell in cells) <= len(cells):
            continue
        names = {label for label_set in labels.split_labels(cells, separator) for label in label_set}
        if len(names) < len(set(cells)):
            return f"labels contain {separator!r}. If a document can have several labels, use --multi-label"
    return None


def _describe_part(table: Table, name: str, rows: int) -> dict[str, Any]:
    return {
        "name": Path(name).name,
        "fingerprint": table.fingerprint,
        "rows": rows,
        "notes": table.notes,
        "columns": list(table.columns),
    }
