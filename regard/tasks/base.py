"""What a kind of task says of itself, so that `start` can train any: one file each, runs/classify.py and the like.

A file is a plain module with these names. `start` knows the folder, the resume, the fingerprints and the end of a run;
a kind knows its data, its tokenizer, its model, the loop's task, and what a trained run of it can do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from torch import nn

from regard.config import specs
from regard.config.settings import Settings
from regard.data.tokenizer import Tokenizer
from regard.models.linear_text_model import Fitted
from regard.training.objective import Task

if TYPE_CHECKING:
    from regard.tasks.base_run import Run

KINDS = {
    "classify": "regard.tasks.classify.task",
    "language": "regard.tasks.language.task",
    "translate": "regard.tasks.translate.task",
    "recall": "regard.tasks.recall.task",
    "caption": "regard.tasks.caption.task",
    "images": "regard.tasks.images.task",
}

Say = Callable[[str], Any]


class Found(Protocol):
    """The data of both parts, read. `info` goes into config.json: {"train": {"name", "fingerprint", "rows", ...},
    "valid": {...}}."""

    @property
    def info(self) -> dict[str, Any]: ...


class Kind(Protocol):
    @property
    def MODELS(self) -> Mapping[str, str]:
        """Name to the module that holds its Config."""
        ...

    @property
    def SETTINGS(self) -> type[Settings]:
        """The settings of this kind: those of all, with its own `data`."""
        ...

    def default(self, tree: Mapping[str, Any]) -> str:
        """The model where none is named, given what else is."""
        ...

    def own(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """The tree of settings with the parts that only this kind has built."""
        ...

    def check(self, settings: Any) -> None:
        """Raise where settings cannot be meant together."""
        ...

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Raise KeyError or TypeError where config.json lacks what `net` and the run need."""
        ...

    def read(self, settings: Any, source: Any, say: Say) -> Any:
        """The data as `Found`; `source` is what was given in Python in place of a file."""
        ...

    def facts(self, found: Any) -> dict[str, Any]:
        """What config.json keeps besides: the names of the classes, for example."""
        ...

    def words(self, settings: Any, found: Any) -> Tokenizer:
        """A tokenizer trained on the training part."""
        ...

    def net(self, settings: Any, config: Mapping[str, Any]) -> nn.Module:
        """The model, untrained, of the sizes in config.json."""
        ...

    def task(
        self, settings: Any, found: Any, words: Tokenizer, folder: Path, say: Say, progress: bool
    ) -> tuple[Task, str]:
        """What the loop trains on, and what it holds, in words."""
        ...

    def fit(self, settings: Any, found: Any) -> tuple[Fitted, dict[str, float]]:
        """For models that are fitted at once (models/fitted.py): the fitted one, and its numbers on the validation
        part."""
        ...

    def size(self, info: Mapping[str, Any]) -> str:
        """How much a part of the data holds, in words."""
        ...

    def uses(self, config: Mapping[str, Any]) -> list[str]:
        """What can be done with a run: commands, with FOLDER for its folder, the first thing to try first."""
        ...

    def about(self, config: Mapping[str, Any]) -> str:
        """A sentence for the model card."""
        ...

    @property
    def RUN(self) -> type[Run]:
        """The trained run in Python."""
        ...


def kind(task: str) -> Kind:
    """The kind of a task by its name."""
    return cast(Kind, importlib.import_module(specs.find("task", task, KINDS)))
