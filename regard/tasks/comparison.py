"""The interface that a task implements so that `regard.compare` can compare its runs.

A metric is a function of sums over test items, so that means, perplexities, F1 and BLEU are bootstrapped and tested in
the same way.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from regard.data.train_valid_split import count_duplicates
from regard.errors import UserError
from regard.tasks.base import get_task

Metric = Callable[[np.ndarray], np.ndarray]
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class ComparisonMetric:
    """A metric of the comparison.

    Attributes:
        name: Its name.
        better: "max" or "min".
        format: How the report shows it: "percent" or "number".
        description: What it is, for the report.
        compute: Sums over items (..., k) to the metric (...).
        is_fraction: Whether it is between 0 and 1.
        is_mean: Whether it is the mean of the first of the k numbers of an item.
        maximum: Its largest value; the smallest is 0.
    """

    name: str
    better: str
    format: str
    description: str
    compute: Metric
    is_fraction: bool = False
    is_mean: bool = False
    maximum: float | None = None


@dataclass(frozen=True)
class ItemScores:
    """The scores of a run on each test item.

    Attributes:
        stats: For each metric what each item adds to the sums, (items, k).
        outputs: For each item plain data about the output of the run; {"output": ...} is shown in the report.
    """

    stats: Mapping[str, np.ndarray]
    outputs: Sequence[Any] = field(default_factory=list)


class ComparisonAdapter(ABC):
    """Splits the data of a task into three fixed parts, and scores the runs on each test item.

    Attributes:
        metrics: The first one ranks, unless the user names another.
        measures_faithfulness: Whether `look` can measure the drop in probability without the most attended words.
        quality_name: What `item_quality` returns; "" if an item is just right or wrong.
    """

    metrics: tuple[ComparisonMetric, ...]
    measures_faithfulness: bool = False
    quality_name: str = ""

    @abstractmethod
    def split_data(
        self, settings: Any, test_files: Sequence[str] | None, test_fraction: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """Read the data and write `folder`/train..., valid... and test...

        Args:
            settings: The settings that name the data.
            test_files: Files of the test part; None to hold out a part of the training data.
            test_fraction: The fraction to hold out.
            seed: Seed of the split.
            folder: Where the parts are written.

        Returns:
            Facts for the report: "items" of each part, "repeated" items, and whether test items have "evidence".
        """

    @abstractmethod
    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The settings `data` of a run on these parts, whose facts `split_data` returned."""

    @abstractmethod
    def score(self, run: Any, folder: Path) -> ItemScores:
        """Score each item of the test part."""

    @abstractmethod
    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        """Single predictions for items of the validation part, to measure the time of one."""

    def look(self, run: Any, folder: Path, item: int, faithful: bool) -> dict[str, Any] | None:
        """The attention of the run on a test item, as data of the viewer; None if there is nothing to show."""
        return None

    @abstractmethod
    def item_quality(self, file: Path) -> np.ndarray:
        """How good a run was on each test item, (items,); higher is better.

        Args:
            file: The file with the scores of the run.
        """

    @abstractmethod
    def describe_items(self, folder: Path, indices: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        """Test items for the report: {"text": ..., "truth": ...}.

        "outputs" has the output of each run where `ItemScores.outputs` does not have it; "prompt" is a text to look at
        in place of the item.
        """


def get_comparison(task: str) -> ComparisonAdapter:
    """The comparison adapter of a task. Raises UserError if its runs cannot be compared."""
    adapter = get_task(task).build_comparison()
    if adapter is None:
        raise UserError(f"runs of the task {task!r} cannot be compared: the task has no comparison adapter")
    return adapter


def load_item_stats(file: Path, metric: str) -> np.ndarray:
    """The stats of a run for a metric, (items, k)."""
    return load_file(file.with_suffix(".safetensors"))[metric]


def ratio_of_sums(sums: np.ndarray) -> np.ndarray:
    """The first sum divided by the second, (..., 2) to (...)."""
    return sums[..., 0] / np.maximum(sums[..., 1], 1e-12)


def add_counts(values: np.ndarray) -> np.ndarray:
    """Values of items (n,) to (n, 2) with a count of 1 each: `ratio_of_sums` of their sum is the mean."""
    values = np.asarray(values, np.float64)
    return np.stack([values, np.ones_like(values)], -1)


def count_repeated(parts: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many items of a part are in another part, for the report."""
    return {
        "test in training": count_duplicates(parts["train"], parts["test"]),
        "test in validation": count_duplicates(parts["valid"], parts["test"]),
        "validation in training": count_duplicates(parts["train"], parts["valid"]),
    }


def write_jsonl(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSONL file."""
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_jsonl(file: Path) -> list[dict[str, Any]]:
    """Read a JSONL file. It is read again only if it has changed."""
    return _read_jsonl(file, file.stat().st_mtime_ns)


@cache
def _read_jsonl(file: Path, modified: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
