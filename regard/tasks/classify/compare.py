"""Compare classifiers by accuracy, F1 and loss on the same test documents."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import labels, train_valid_split
from regard.data.read_table import Table, read_table
from regard.errors import UserError
from regard.inspect import find_attention_layers
from regard.tasks.classify.dataset import encode_targets
from regard.tasks.classify.metrics import EPSILON
from regard.tasks.comparison import (
    PARTS,
    ComparisonAdapter,
    ComparisonMetric,
    ItemScores,
    add_counts,
    count_repeated,
    load_item_stats,
    ratio_of_sums,
    read_jsonl,
    write_jsonl,
)

logger = logging.getLogger(__name__)


def macro_f1(sums: np.ndarray) -> np.ndarray:
    """Macro-F1 from counts (..., classes x 3) of correct, predicted and actual labels."""
    correct, predicted, actual = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
    occurs = actual > 0
    return (2 * correct / np.maximum(predicted + actual, 1) * occurs).sum(-1) / np.maximum(occurs.sum(-1), 1)


def micro_f1(sums: np.ndarray) -> np.ndarray:
    """Micro-F1 from counts (..., 3) of correct, predicted and actual labels."""
    return 2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)


class ClassifyComparison(ComparisonAdapter):
    """Comparison of classifiers."""

    metrics = (
        ComparisonMetric(
            "accuracy",
            "max",
            "percent",
            "fraction of test documents with the correct class",
            ratio_of_sums,
            is_fraction=True,
            is_mean=True,
        ),
        ComparisonMetric("macro_f1", "max", "percent", "mean F1 of the classes", macro_f1, is_fraction=True),
        ComparisonMetric(
            "micro_f1", "max", "percent", "F1 over all pairs of document and label", micro_f1, is_fraction=True
        ),
        ComparisonMetric(
            "loss", "min", "number", "mean -log p of the correct class", ratio_of_sums, is_mean=True, maximum=math.inf
        ),
    )
    measures_faithfulness = True

    def split_data(
        self, settings: Any, test_files: Sequence[str] | None, test_fraction: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """At random, stratified by class. Named validation and test files are used as they are."""
        data = settings.data
        columns = {"text": data.text, "label": data.label, "multilabel": data.multi_label}
        table = read_table(data.train, **columns)
        for note in table.notes:
            logger.info(note)
        cells, separator = table.labels or [], None
        if data.multi_label:
            separator = labels.find_separator(cells) if data.separator is None else data.separator
        strata = labels.rarest_labels(labels.split_labels(cells, separator)) if separator else cells
        rows, parts = _table_rows(table, data.train), {}
        train = np.arange(len(cells))
        if test_files is not None:
            parts["test"] = _table_rows(read_table(test_files[0], **columns), test_files[0])
        else:
            train, test = train_valid_split.split_indices(strata, test_fraction, seed)
            parts["test"] = [rows[i] for i in test]
        if data.valid is not None:
            parts["valid"] = _table_rows(read_table(data.valid, **columns), data.valid)
        else:
            split = train_valid_split.split_indices([strata[i] for i in train], data.valid_fraction, seed)
            train, valid = (train[indices] for indices in split)
            parts["valid"] = [rows[i] for i in valid]
        parts["train"] = [rows[i] for i in train]
        for part, part_rows in parts.items():
            write_jsonl(folder / f"{part}.jsonl", part_rows)
        return {
            "items": {part: len(parts[part]) for part in PARTS},
            "repeated": count_repeated({part: [row["text"] for row in part_rows] for part, part_rows in parts.items()}),
            "separator": separator,
            "evidence": all("evidence" in row for row in parts["test"]),
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        files = {part: str(folder / f"{part}.jsonl") for part in ("train", "valid")}
        return {**files, "text": "text", "label": "label", "separator": facts["separator"]}

    def score(self, run: Any, folder: Path) -> ItemScores:
        rows = read_jsonl(folder / "test.jsonl")
        cells = [row["label"] for row in rows]
        targets = encode_targets(cells, run.labels, run.config.get("separator"), "the test part")
        probabilities = run.probabilities([row["text"] for row in rows])
        if targets.ndim == 2:
            predicted, actual = probabilities >= labels.THRESHOLD, targets > 0
            correct = (predicted == actual).all(1)
            likelihood = np.where(actual, probabilities, 1 - probabilities)
            loss = -np.log(np.clip(likelihood, EPSILON, 1)).mean(1)
        else:
            one_hot = np.eye(len(run.labels), dtype=bool)
            predicted, actual = one_hot[probabilities.argmax(1)], one_hot[targets]
            correct = probabilities.argmax(1) == targets
            loss = -np.log(np.maximum(probabilities[np.arange(len(targets)), targets], EPSILON))
        counts = np.stack([predicted & actual, predicted, actual], -1).astype(np.float64)
        stats = {
            "accuracy": add_counts(correct),
            "macro_f1": counts.reshape(len(rows), -1),
            "micro_f1": counts.sum(1),
            "loss": add_counts(loss),
        }
        names = np.array(run.labels, object)
        outputs = [
            {"output": "|".join(names[mask]), "probabilities": [round(float(p), 6) for p in row]}
            for mask, row in zip(predicted, probabilities, strict=True)
        ]
        return ItemScores(stats, outputs)

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        rows = read_jsonl(folder / "valid.jsonl")[:count]
        return [lambda text=row["text"]: run.predict(text) for row in rows]

    def look(self, run: Any, folder: Path, item: int, faithful: bool) -> dict[str, Any] | None:
        row = read_jsonl(folder / "test.jsonl")[item]
        if run.fitted is not None or not find_attention_layers(run.model):
            return None
        evidence = [(int(start), int(end)) for start, end in row["evidence"]] if "evidence" in row else None
        try:
            return run.look(row["text"], evidence=evidence, faithful=faithful).data
        except UserError:  # an empty text, for example
            return None

    def item_quality(self, file: Path) -> np.ndarray:
        return load_item_stats(file, "accuracy")[:, 0]

    def describe_items(self, folder: Path, indices: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        rows = read_jsonl(folder / "test.jsonl")
        return [{"text": rows[i]["text"], "truth": rows[i]["label"]} for i in indices]


def _table_rows(table: Table, file: str) -> list[dict[str, Any]]:
    """The rows of a table; with "evidence", spans that decide the label, if a .jsonl file has them."""
    cells = table.labels or []
    rows: list[dict[str, Any]] = [{"text": t, "label": c} for t, c in zip(table.texts, cells, strict=True)]
    if Path(file).suffix == ".jsonl" and len(table.row_ids or rows) == len(rows):
        lines = [line for line in Path(file).read_text(encoding="utf-8").split("\n") if line.strip()]
        for row, number in zip(rows, table.row_ids or range(len(rows)), strict=True):
            record = json.loads(lines[number]) if number < len(lines) else {}
            if isinstance(record, dict) and isinstance(record.get("evidence"), list):
                row["evidence"] = record["evidence"]
    return rows
