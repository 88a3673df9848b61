"""The designs of a comparison: models, each with every combination of the varied settings."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from regard.config import specs
from regard.config.settings import TrainSettings, expand_model_name, merge_settings, nest_value
from regard.errors import UserError
from regard.models.linear_text_model import FittableConfig
from regard.tasks.base import get_task
from regard.tasks.build_settings import field_names, task_models

logger = logging.getLogger(__name__)

FROZEN, FINETUNED = "frozen", "tuned"
IMPORTED = (FROZEN, FINETUNED)
"""`frozen:folder=FOLDER`: logistic regression on an imported model; `tuned:folder=FOLDER`: the model is fine-tuned."""
BASELINES = ("nb-svm", "tfidf")
"""Bag-of-words models that are fitted in seconds: what a classifier must beat."""
MAX_FOLDER_LENGTH = 40
"""Longer folders are truncated in the name of a design."""


@dataclass(frozen=True)
class Design:
    """A name and its settings; one row of the results. `slug` is the name of its folder."""

    name: str
    settings: dict[str, Any]

    @property
    def slug(self) -> str:
        return re.sub(r"[^\w.=-]+", "-", self.name).strip("-")[:100] or "design"

    @property
    def model(self) -> str:
        return str(self.settings["model"]["name"])


def setting_path(key: str) -> list[str]:
    """Return the path of a setting from its short name: mechanism is model.mechanism, lr is train.lr."""
    if "." in key:
        return key.split(".")
    if key in {f.name for f in dataclasses.fields(TrainSettings)}:
        return ["train", key]
    return [key] if key in ("objective", "label_smoothing", "ensemble_size", "warm_start") else ["model", key]


def add_baselines(task: str, models: Sequence[Any]) -> list[Any]:
    """Return the models and, for classifiers, the bag-of-words baselines, unless one of them is among the models."""
    if task != "classify" or not models:
        return list(models)
    if any(parse_model(task, model)[1]["model"]["name"] in BASELINES for model in models):
        return list(models)
    logger.info(f"adding the bag-of-words baselines {' and '.join(BASELINES)}")
    return [*models, *BASELINES]


def build_designs(task: str, models: Sequence[Any], vary: Mapping[str, Sequence[str]]) -> list[Design]:
    """Return the grid: each model with each combination of the varied settings that it has."""
    designs: list[Design] = []
    for model in models:
        name, model_settings = parse_model(task, model)
        axes = [(key, values) for key, values in vary.items() if has_setting(task, model_settings, setting_path(key))]
        for key in vary:
            if key not in dict(axes):
                logger.info(f"{name} has no setting {key}: it is compared once")
        for values in product(*(values for _, values in axes)):
            settings, labels = model_settings, [name]
            for (key, _), value in zip(axes, values, strict=True):
                settings = merge_settings(settings, nest_value(setting_path(key), value))
                labels.append(value if key in ("mechanism", "positions") else f"{key}={value}")
            designs.append(Design(", ".join(labels), settings))
    slugs: set[str] = set()
    for design in designs:
        if design.slug in slugs:
            raise UserError(f"two designs are called {design.name!r}; give each its own name (label: ...)")
        slugs.add(design.slug)
    return designs


def parse_model(task: str, model: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of a model.

    Args:
        model: A spec such as "han:hidden=64", or a mapping of any settings with a "label".
    """
    if isinstance(model, Mapping):
        settings = expand_model_name({key: value for key, value in model.items() if key != "label"})
        if not isinstance(settings.get("model"), Mapping) or "name" not in settings["model"]:
            raise UserError(f"a design needs a model, such as {{model: {{name: han}}}}, not {model!r}")
        name = str(model.get("label") or settings["model"]["name"])
    else:
        short, options = specs.parse_spec(str(model))
        name, settings = str(model), {"model": {"name": short, **options}}
        if short in IMPORTED and len(folder := str(options.get("folder", ""))) > MAX_FOLDER_LENGTH:
            name = f"{short}:folder=…/{'/'.join(Path(folder).parts[-2:])}"
    known = {**dict.fromkeys(task_models(task)), **dict.fromkeys(IMPORTED, "")}
    specs.find_choice(f"model for {task}", str(settings["model"]["name"]), known)
    return name, dict(settings)


def has_setting(task: str, settings: Mapping[str, Any], path: list[str]) -> bool:
    """Return whether the model of these settings has a setting at this path."""
    model = str(settings["model"]["name"])
    if model in IMPORTED:
        return model == FINETUNED and path[0] == "train"
    config = task_models(task).find(model)
    if path[0] == "model":
        return path[1] in field_names(config)
    if path[0] not in field_names(get_task(task).settings_class):
        raise UserError(f"the task {task!r} has no setting {'.'.join(path)!r} to vary")
    return not (isinstance(config(), FittableConfig) and path[0] in ("train", "tokenizer"))
