"""The task `images`: classify images."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from regard.data.tokenizer import Tokenizer, train_tokenizer
from regard.tasks.base import Task
from regard.tasks.image_input import describe_input, feature_entries, feature_width
from regard.tasks.image_settings import complete_augment
from regard.tasks.images.dataset import ImagesDataset, read_dataset
from regard.tasks.images.objective import ImagesObjective
from regard.tasks.images.run import ImageClassifierRun
from regard.tasks.images.settings import ImagesSettings

logger = logging.getLogger(__name__)


class ImagesTask(Task[ImagesSettings, ImagesDataset]):
    name = "images"
    settings_class = ImagesSettings
    run_class = ImageClassifierRun
    models: ClassVar[Mapping[str, str]] = {"attention": "regard.models.image_classifier:ImageClassifierConfig"}

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return "attention"

    def check_settings(self, settings: ImagesSettings) -> None:
        settings.augment.check()
        settings.data.check()

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["labels"][0], config["settings"]["data"]["size"]

    def config_entries(self, dataset: ImagesDataset) -> dict[str, Any]:
        counts = np.bincount(dataset.labels, minlength=len(dataset.classes)).tolist()
        support = dict(zip(dataset.classes, counts, strict=True))
        return {"labels": dataset.classes, "support": support, **feature_entries(dataset.images, dataset.backbone)}

    def build_tokenizer(self, settings: ImagesSettings, dataset: ImagesDataset) -> Tokenizer:
        """Return a tokenizer of the class names, because every run has one."""
        return train_tokenizer([name.replace(" ", "_") or "_" for name in dataset.classes], "spaces", 1_000_000)

    def build_model(self, settings: ImagesSettings, config: Mapping[str, Any]) -> nn.Module:
        return settings.model.build(len(config["labels"]), feature_width(config))

    def build_objective(
        self, settings: ImagesSettings, dataset: ImagesDataset, tokenizer: Tokenizer, folder: Path, progress: bool
    ) -> tuple[ImagesObjective, str]:
        labels, valid_labels = dataset.labels, dataset.valid_labels
        objective = ImagesObjective(
            dataset.images,
            labels,
            dataset.valid_images,
            valid_labels,
            batch_size=settings.data.batch,
            seed=settings.seed,
            augment=settings.augment,
        )
        size = f"{len(labels):,} images, {len(valid_labels):,} for validation, {len(dataset.classes)} classes"
        return objective, size

    def format_size(self, info: Mapping[str, Any]) -> str:
        return f"{info['rows']:,} images"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        return ["regard predict FOLDER IMAGE", "regard look FOLDER IMAGE", "regard evaluate FOLDER IMAGES"]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        labels = ", ".join(f"`{label}`" for label in config["labels"][:20])
        more = f" and {len(config['labels']) - 20} more" if len(config["labels"]) > 20 else ""
        return f"{describe_input(config)} Classes: {labels}{more}."

    def complete_settings(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        return complete_augment(tree)

    def read_dataset(self, settings: ImagesSettings, source: Any) -> ImagesDataset:
        return read_dataset(settings, source)
