"""What comparing asks of a task: deal the data into three fixed parts, and say what a run got of each test item.

A file here is a plain module with the names of `Contest`, listed in `CONTESTS`. A measure is a function of sums over
test items, so that means, perplexities, F1 and BLEU are resampled and tested in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from regard.errors import UserError
from regard.tasks.base import get_task

Metric = Callable[[np.ndarray], np.ndarray]
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class ComparisonMetric:
    """`metric` takes sums over items (..., k). `better`: max or min. `share`: between 0 and 1; `linear`: the mean of
    the first of the k numbers of an item; `top`: between 0 and this. `format` is that of a column of the report."""

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
    """For each measure what each test item adds, (items, k), and what the run said of each, as plain data."""

    stats: Mapping[str, np.ndarray]
    outputs: Sequence[Any] = field(default_factory=list)


class ComparisonAdapter(ABC):
    """What `regard.compare` needs of a task: split the data into three fixed parts, and score each test item of a run.

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
        self, settings: Any, test: Sequence[str] | None, share: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """Read the data and write `folder`/train..., valid... and test...

        Args:
            settings: The settings that name the data.
            test: Files of the test part; None to hold out a part of the training data.
            share: The fraction to hold out.
            seed: Seed of the split.
            folder: Where the parts are written.

        Returns:
            Facts for the report: how many items each part has, and how many are in two parts.
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
    def describe_items(self, folder: Path, numbers: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        """Test items as text: {"text": ..., "truth": ...}, with "said" of each run where the scores do not contain it,
        and with "asked", a text to look at in place of the item."""


def get_comparison(task: str) -> ComparisonAdapter:
    """The comparison adapter of a task. Raises UserError where its runs cannot be compared."""
    adapter = get_task(task).build_comparison()
    if adapter is None:
        raise UserError(f"runs of the task {task!r} cannot be compared")
    return adapter


def load_item_stats(file: Path, measure: str) -> np.ndarray:
    """(items, k) of a run."""
    return load_file(file.with_suffix(".safetensors"))[measure]


def ratio_of_sums(sums: np.ndarray) -> np.ndarray:
    """Of the first number by the second."""
    return sums[..., 0] / np.maximum(sums[..., 1], 1e-12)


def add_counts(values: np.ndarray) -> np.ndarray:
    """Numbers of items (n,) as (n, 2), of which `mean` is the mean."""
    values = np.asarray(values, np.float64)
    return np.stack([values, np.ones_like(values)], -1)
