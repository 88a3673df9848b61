"""What comparing asks of a task: deal the data into three fixed parts, and say what a run got of each test item.

A file here is a plain module with the names of `Contest`, listed in `CONTESTS`. A measure is a function of sums over
test items, so that means, perplexities, F1 and BLEU are resampled and tested in the same way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from safetensors.numpy import load_file

from regard.config import specs

CONTESTS = {
    "classify": "regard.tasks.classify.compare",
    "language": "regard.tasks.language.compare",
    "translate": "regard.tasks.translate.compare",
    "recall": "regard.tasks.recall.compare",
    "caption": "regard.tasks.caption.compare",
}

Metric = Callable[[np.ndarray], np.ndarray]
PARTS = ("train", "valid", "test")
Say = Callable[[str], Any]


@dataclass(frozen=True)
class Measure:
    """`metric` takes sums over items (..., k). `better`: max or min. `share`: between 0 and 1; `linear`: the mean of
    the first of the k numbers of an item; `top`: between 0 and this. `format` is that of a column of the report."""

    name: str
    better: str
    format: str
    explain: str
    metric: Metric
    share: bool = False
    linear: bool = False
    top: float | None = None


@dataclass(frozen=True)
class Scored:
    """For each measure what each test item adds, (items, k), and what the run said of each, as plain data."""

    stats: Mapping[str, np.ndarray]
    said: Sequence[Any] = field(default_factory=list)


class Contest(Protocol):
    @property
    def MEASURES(self) -> tuple[Measure, ...]:
        """The first one ranks, unless another is named."""
        ...

    @property
    def JUDGED(self) -> bool:
        """Whether a look can be judged by the class's chance without the words attended to."""
        ...

    @property
    def QUALITY(self) -> str:
        """What `quality` gives, in a word or two; "" where items are right or wrong."""
        ...

    def deal(self, settings: Any, test: Sequence[str] | None, share: float, seed: int, folder: Path, say: Say) -> dict:
        """Read what the settings name and write `folder`/train..., valid... and test...; facts for the report: how
        many items each part has, and how many stand in two."""
        ...

    def data(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The settings `data` of a run on these parts, of which `deal` gave the facts."""
        ...

    def score(self, run: Any, folder: Path, say: Say) -> Scored:
        """The run on the test part."""
        ...

    def ask(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        """So many single questions from the validation part, for the time that an answer takes."""
        ...

    def look(self, run: Any, folder: Path, item: int, faithful: bool) -> dict[str, Any] | None:
        """What the run looks at in a test item, as data of the viewer; None where there is nothing to see."""
        ...

    def quality(self, file: Path) -> np.ndarray:
        """How well a run, of which `file` keeps the scores, did on each test item: the more the better."""
        ...

    def items(self, folder: Path, numbers: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        """Test items for people: {"text": ..., "truth": ...}; with "said" of each run, where that is not kept with the
        scores, and "asked", a text to be looked at instead of the item."""
        ...


def contest(task: str) -> Contest:
    return cast(Contest, importlib.import_module(specs.find("task that can be compared", task, CONTESTS)))


def stats_of(file: Path, measure: str) -> np.ndarray:
    """(items, k) of a run."""
    return load_file(file.with_suffix(".safetensors"))[measure]


def mean(sums: np.ndarray) -> np.ndarray:
    """Of the first number by the second."""
    return sums[..., 0] / np.maximum(sums[..., 1], 1e-12)


def counted(values: np.ndarray) -> np.ndarray:
    """Numbers of items (n,) as (n, 2), of which `mean` is the mean."""
    values = np.asarray(values, np.float64)
    return np.stack([values, np.ones_like(values)], -1)
