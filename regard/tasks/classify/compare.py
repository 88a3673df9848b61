"""Compare classifiers: the share of test documents that are named rightly."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import labels, train_valid_split
from regard.data.read_table import Table, read_table
from regard.errors import UserError
from regard.inspect import find_attention_layers
from regard.tasks.classify.dataset import encode_targets
from regard.tasks.classify.metrics import EPSILON
from regard.tasks.comparison import PARTS, ComparisonAdapter, ComparisonMetric, ItemScores, add_counts, ratio_of_sums, load_item_stats

logger = logging.getLogger(__name__)


def _macro(sums: np.ndarray) -> np.ndarray:
    """Of counts (..., classes x 3): rightly said, said, true."""
    right, said, true = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
    seen = true > 0
    return (2 * right / np.maximum(said + true, 1) * seen).sum(-1) / np.maximum(seen.sum(-1), 1)


def _micro(sums: np.ndarray) -> np.ndarray:
    """Of counts (..., 3): rightly said, said, true."""
    return 2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)


METRICS = (
    ComparisonMetric("accuracy", "max", "percent", "share of test documents named rightly", ratio_of_sums, is_fraction=True, is_mean=True),
    ComparisonMetric("macro_f1", "max", "percent", "F1, the mean over classes", _macro, is_fraction=True),
    ComparisonMetric("micro_f1", "max", "percent", "F1 of all pairs of document and label", _micro, is_fraction=True),
    ComparisonMetric("loss", "min", "number", "nats: -log of the chance given to the truth", ratio_of_sums, is_mean=True, maximum=math.inf),
)


def _rows(table: Table, file: str) -> list[dict[str, Any]]:
    """With the spans that decide, where a .jsonl file has them under "evidence"."""
    cells = table.labels or []
    rows: list[dict[str, Any]] = [{"text": t, "label": c} for t, c in zip(table.texts, cells, strict=True)]
    if Path(file).suffix == ".jsonl" and len(table.row_ids or rows) == len(rows):
        lines = [line for line in Path(file).read_text(encoding="utf-8").split("\n") if line.strip()]
        for row, number in zip(rows, table.row_ids or range(len(rows)), strict=True):
            found = json.loads(lines[number]) if number < len(lines) else {}
            if isinstance(found, dict) and isinstance(found.get("evidence"), list):
                row["evidence"] = found["evidence"]
    return rows


def _said(run: Any, chances: np.ndarray) -> str:
    """The class that is named, or all labels."""
    if not run.multi_label:
        return run.labels[int(chances.argmax())]
    return "|".join(name for name, p in zip(run.labels, chances, strict=True) if p >= labels.THRESHOLD)


def _read(path: Path) -> list[dict[str, Any]]:
    return _lines(path, path.stat().st_mtime_ns)


@cache
def _lines(path: Path, date: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


class ClassifyComparison(ComparisonAdapter):
    metrics = METRICS
    measures_faithfulness = True

    def split_data(
        self, settings: Any, test: Sequence[str] | None, share: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """Class by class by chance; documents named for validation or test stay what they are."""
        given = settings.data
        many = given.multi_label
        where = {"text": given.text, "label": given.label, "multilabel": many}
        whole = read_table(given.train, **where)
        for note in whole.notes:
            logger.info(note)
        cells = whole.labels or []
        mark = (labels.find_separator(cells) if given.separator is None else given.separator) if many else None
        keys = labels.rarest_labels(labels.split_labels(cells, mark)) if mark else cells
        left = np.arange(len(cells))
        rows = {"train": _rows(whole, given.train)}
        if test is not None:
            rows["test"] = _rows(read_table(test[0], **where), test[0])
        else:
            left, aside = train_valid_split.split_indices(keys, share, seed)
            rows["test"] = [rows["train"][i] for i in aside]
        if given.valid is not None:
            rows["valid"] = _rows(read_table(given.valid, **where), given.valid)
            kept = left
        else:
            kept, aside = (
                left[part]
                for part in train_valid_split.split_indices([keys[i] for i in left], given.valid_fraction, seed)
            )
            rows["valid"] = [rows["train"][i] for i in aside]
        rows["train"] = [rows["train"][i] for i in kept]
        for part, made in rows.items():
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
            (folder / f"{part}.jsonl").write_text(text, encoding="utf-8")
        texts = {part: [row["text"] for row in made] for part, made in rows.items()}
        return {
            "items": {part: len(rows[part]) for part in PARTS},
            "repeated": {
                "test in training": train_valid_split.count_duplicates(texts["train"], texts["test"]),
                "test in validation": train_valid_split.count_duplicates(texts["valid"], texts["test"]),
                "validation in training": train_valid_split.count_duplicates(texts["train"], texts["valid"]),
            },
            "separator": mark,
            "evidence": all("evidence" in row for row in rows["test"]),
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        files = {part: str(folder / f"{part}.jsonl") for part in ("train", "valid")}
        return {**files, "text": "text", "label": "label", "separator": facts["separator"]}

    def score(self, run: Any, folder: Path) -> ItemScores:
        rows = _read(folder / "test.jsonl")
        truth = encode_targets([row["label"] for row in rows], run.labels, run.config.get("separator"), "the test part")
        chances = run.probabilities([row["text"] for row in rows])
        said = [{"said": _said(run, row), "chances": [round(float(p), 6) for p in row]} for row in chances]
        if truth.ndim == 2:
            guess, true = chances >= labels.THRESHOLD, truth > 0
            right = (guess == true).all(1)
            loss = -np.log(np.clip(np.where(true, chances, 1 - chances), EPSILON, 1)).mean(1)
        else:
            eye = np.eye(len(run.labels), dtype=bool)
            guess, true = eye[chances.argmax(1)], eye[truth]
            right = chances.argmax(1) == truth
            loss = -np.log(np.maximum(chances[np.arange(len(truth)), truth], EPSILON))
        counts = np.stack([guess & true, guess, true], -1).astype(np.float64)
        macro, micro = counts.reshape(len(rows), -1), counts.sum(1)
        return ItemScores({"accuracy": add_counts(right), "macro_f1": macro, "micro_f1": micro, "loss": add_counts(loss)}, said)

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        return [lambda text=row["text"]: run.predict(text) for row in _read(folder / "valid.jsonl")[:count]]

    def look(self, run: Any, folder: Path, item: int, faithful: bool) -> dict[str, Any] | None:
        row = _read(folder / "test.jsonl")[item]
        if run.fitted is not None or not find_attention_layers(run.model):
            return None
        evidence = [(int(a), int(b)) for a, b in row["evidence"]] if "evidence" in row else None
        try:
            return run.look(row["text"], evidence=evidence, faithful=faithful).data
        except UserError:  # an empty text, for example
            return None

    def item_quality(self, file: Path) -> np.ndarray:
        return load_item_stats(file, "accuracy")[:, 0]

    def describe_items(self, folder: Path, numbers: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        rows = _read(folder / "test.jsonl")
        return [{"text": rows[i]["text"], "truth": rows[i]["label"]} for i in numbers]
