"""The task `images`: classify images."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from regard.data import tokenizer
from regard.data.tokenizer import Tokenizer
from regard.tasks.base import Task
from regard.tasks.image_input import describe_input, feature_entries, feature_width
from regard.tasks.image_settings import complete_augment
from regard.tasks.images.dataset import ImagesDataset, read_dataset
from regard.tasks.images.objective import See
from regard.tasks.images.run import ImageRun
from regard.tasks.images.settings import ImagesSettings

logger = logging.getLogger(__name__)


class ImagesTask(Task[ImagesSettings, ImagesDataset]):
    name = "images"
    settings_class = ImagesSettings
    run_class = ImageRun
    models: ClassVar[Mapping[str, str]] = {"attention": "regard.models.image_classifier:ImageClassifierConfig"}

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return "attention"

    def check_settings(self, settings: ImagesSettings) -> None:
        data = settings.data
        settings.augment.check()
        data.check()

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["labels"][0], config["settings"]["data"]["size"]

    def config_entries(self, found: ImagesDataset) -> dict[str, Any]:
        count = np.bincount(found.labels, minlength=len(found.classes)).tolist()
        named = {"labels": found.classes, "support": dict(zip(found.classes, count, strict=True))}
        return {**named, **feature_entries(found.pictures, found.backbone)}

    def build_tokenizer(self, settings: ImagesSettings, found: ImagesDataset) -> Tokenizer:
        """The names of the classes; pictures have no words."""
        return tokenizer.train_tokenizer([name.replace(" ", "_") or "_" for name in found.classes], "spaces", 1_000_000)

    def build_model(self, settings: ImagesSettings, config: Mapping[str, Any]) -> nn.Module:
        return settings.model.build(len(config["labels"]), feature_width(config))

    def build_objective(
        self, settings: ImagesSettings, found: ImagesDataset, words: Tokenizer, folder: Path, progress: bool
    ) -> tuple[See, str]:
        data = settings.data
        shape: dict[str, Any] = {"batch": data.batch, "seed": settings.seed, "augment": settings.augment}
        job = See(found.pictures, found.labels, found.valid, found.valid_labels, **shape)
        return (
            job,
            f"{len(found.labels):,} pictures, {len(found.valid_labels):,} for validation, {len(found.classes)} classes",
        )

    def format_size(self, info: Mapping[str, Any]) -> str:
        return f"{info['rows']:,} pictures"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        return ["regard predict FOLDER PICTURE", "regard look FOLDER PICTURE", "regard evaluate FOLDER PICTURES"]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        labels = ", ".join(f"`{label}`" for label in config["labels"][:20])
        more = f" and {len(config['labels']) - 20} more" if len(config["labels"]) > 20 else ""
        return f"{describe_input(config)} Classes: {labels}{more}."

    def complete_settings(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        return complete_augment(tree)

    def read_dataset(self, settings: ImagesSettings, source: Any) -> ImagesDataset:
        return read_dataset(settings, source)
