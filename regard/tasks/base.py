"""The interface that each task implements; `train()` is generic over it.

A task is a folder with the same files in each: settings, dataset, objective, task, run, look, compare. `train()` knows
run folders, checkpoints and the training loop; a `Task` knows its data, its tokenizer, its model and its objective.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from torch import nn

import regard.tasks
from regard.config.registry import Registry, models_of
from regard.config.settings import Settings
from regard.data.tokenizer import Tokenizer
from regard.models.linear_text_model import FittedModel
from regard.training.objective import Objective

if TYPE_CHECKING:
    from regard.tasks.base_run import Run
    from regard.tasks.comparison import ComparisonAdapter


class Dataset(Protocol):
    """A dataset that was read, with its training and validation part."""

    @property
    def info(self) -> dict[str, Any]:
        """What config.json records: {"train": {"name", "fingerprint", "rows", ...}, "valid": {...}}."""
        ...


SettingsT = TypeVar("SettingsT", bound=Settings)
DatasetT = TypeVar("DatasetT", bound=Dataset)


class Task(ABC, Generic[SettingsT, DatasetT]):
    """One kind of problem that models are trained for, such as "classify".

    Attributes:
        name: The name in settings and on the command line.
        settings_class: The dataclass of the task's settings.
        run_class: The class of its trained runs, with methods such as `predict`.
        models: Built-in models, name to "module:Config". `@regard.register_model` adds a user's.
    """

    name: ClassVar[str]
    settings_class: type[SettingsT]
    run_class: type[Run]
    models: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        for name, config in vars(cls).get("models", {}).items():
            models_of(cls.name).register(name, config)

    @abstractmethod
    def default_model(self, tree: Mapping[str, Any]) -> str:
        """The name of the model that is trained when the settings (a nested mapping) name none."""

    def complete_settings(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """The nested mapping of settings with the task's own defaults filled in."""
        return dict(tree)

    def check_settings(self, settings: SettingsT) -> None:
        """Raise UserError where settings contradict each other."""

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Raise KeyError, IndexError or TypeError where config.json lacks an entry that the task needs."""

    @abstractmethod
    def read_dataset(self, settings: SettingsT, source: Any) -> DatasetT:
        """Read the data and split it.

        Args:
            settings: The settings, whose `data` names the files.
            source: The data itself where it was passed in Python in place of a file name, otherwise None.
        """

    def config_entries(self, dataset: DatasetT) -> dict[str, Any]:
        """Entries of config.json that come from the data and that `build_model` needs, such as the labels."""
        return {}

    @abstractmethod
    def build_tokenizer(self, settings: SettingsT, dataset: DatasetT) -> Tokenizer:
        """Train a tokenizer on the training part."""

    @abstractmethod
    def build_model(self, settings: SettingsT, config: Mapping[str, Any]) -> nn.Module:
        """Build the untrained model.

        Args:
            settings: The settings; `settings.model` is the model's config dataclass.
            config: Entries of config.json: "vocab_size", and those of `config_entries`.
        """

    @abstractmethod
    def build_objective(
        self, settings: SettingsT, dataset: DatasetT, tokenizer: Tokenizer, folder: Path, progress: bool
    ) -> tuple[Objective, str]:
        """Tokenize the data and build what the training loop needs.

        Args:
            settings: The settings.
            dataset: The data as read.
            tokenizer: The run's tokenizer.
            folder: The run folder, for files that training reads again.
            progress: Whether to show progress bars.

        Returns:
            The objective, and a short description of its data for the log.
        """

    def after_training(self, run: Run) -> None:
        """Finish a trained run, for example by calibrating its confidences."""

    @abstractmethod
    def format_size(self, info: Mapping[str, Any]) -> str:
        """The size of one part of the data, such as "1,000 rows", from its entry in config.json."""

    @abstractmethod
    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        """Commands to try with a run, the most useful first, with FOLDER in place of its folder."""

    def describe_run(self, config: Mapping[str, Any]) -> str:
        """A sentence about the run for its model card."""
        return f"Vocabulary: {config['vocab_size']:,}."

    def build_comparison(self) -> ComparisonAdapter | None:
        """The adapter for `regard.compare`; None where runs of the task cannot be compared."""
        return None


class FittableTask(Task[SettingsT, DatasetT]):
    """A task with models that are fitted in one call instead of trained in steps (regard/models/linear_text_model)."""

    @abstractmethod
    def fit_model(self, settings: SettingsT, dataset: DatasetT) -> tuple[FittedModel, dict[str, float]]:
        """Fit the model.

        Returns:
            The fitted model and its metrics on the validation part.
        """


TASKS: Registry[type[Task[Any, Any]]] = Registry("task", Task)
"""Tasks by name. Each folder NAME of regard/tasks holds the class NameTask in its file task.py."""

for _, _folder, _is_package in pkgutil.iter_modules(regard.tasks.__path__):
    if _is_package:
        TASKS.register(_folder, f"regard.tasks.{_folder}.task:{_folder.title()}Task")


def get_task(name: str) -> Task[Any, Any]:
    """The task of that name. Raises UserError where there is none."""
    return TASKS.find(name)()
