"""Build the settings of a task from a nested mapping, and turn them back into plain data."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.config.registry import Registry, models_of
from regard.config.settings import LENGTH_SETTINGS, Settings, build_dataclass, expand_model_name, parse_duration
from regard.config.validation import check_minimum
from regard.errors import UserError, did_you_mean
from regard.tasks.base import TASKS, get_task

S = TypeVar("S", bound=Settings)
DEFAULT_EPOCHS = 5


def task_models(task: str) -> Registry[type]:
    """The models of a task: names to config dataclasses. Raises UserError for an unknown task."""
    TASKS.find(task)  # importing a task registers its models
    return models_of(task)


def field_names(dataclass: type) -> list[str]:
    """The names of the fields of a dataclass."""
    return [field.name for field in dataclasses.fields(dataclass)]


def build_settings(task: str, tree: Mapping[str, Any]) -> Settings:
    """Build the settings of a task, complete and checked.

    Args:
        task: Name of the task.
        tree: A nested mapping, in which "model" has the "name" of the model and its settings.
    """
    task_object = get_task(task)
    # an empty `train:` in a YAML file is None
    tree = task_object.complete_settings({k: v for k, v in expand_model_name(tree).items() if v is not None})
    model = tree.pop("model", {})
    if not isinstance(model, Mapping):
        raise UserError(f"model must be a name, or a mapping with a name, not {model!r}")
    model_settings = dict(model)
    name = str(model_settings.pop("name", task_object.default_model(tree)))
    config_class = task_models(task).find(name)
    for key in ("mechanism", "positions"):
        if key in model_settings and key not in field_names(config_class):
            able = [other for other, config in task_models(task).items() if key in field_names(config)]
            raise UserError(f"model {name!r} has no setting {key!r}; these models have it: {', '.join(able)}")
    known = [field for field in field_names(task_object.settings_class) if field not in ("task", "model_name")]
    for key in tree:
        if key not in known:
            raise UserError(f"unknown setting {key!r}; {did_you_mean(str(key), known)}")
    length = tree.get("train")
    if isinstance(length, Mapping) and str(length.get("budget")).lower() not in ("none", "null"):
        tree["train"] = {**length, "budget": parse_duration(length["budget"])}
    model_config = build_dataclass(config_class, model_settings, where="model")
    settings = build_dataclass(
        task_object.settings_class, {**tree, "task": task, "model_name": name, "model": model_config}
    )
    lengths = [key for key in LENGTH_SETTINGS if getattr(settings.train, key) is not None]
    if len(lengths) > 1:
        raise UserError(f"the length of training must be one of epochs, steps or budget, not {' and '.join(lengths)}")
    if not lengths:
        settings = dataclasses.replace(settings, train=dataclasses.replace(settings.train, epochs=DEFAULT_EPOCHS))
    check_minimum("data.", settings.data, batch_tokens=1)
    if not 0 <= settings.seed < 2**32:
        raise UserError(f"seed must be between 0 and {2**32 - 1}, not {settings.seed}")
    task_object.check_settings(settings)
    return settings


def make_paths_absolute(settings: S) -> S:
    """Make file names absolute, so that a run can be resumed from another folder."""
    paths: dict[str, Any] = {}
    for part in ("train", "valid", "weights"):
        value = getattr(settings.data, part, None)
        if isinstance(value, str) and value:
            paths[part] = str(Path(value).absolute())
        elif isinstance(value, tuple):
            paths[part] = tuple(str(Path(path).absolute()) for path in value)
    warm_start = None if settings.warm_start is None else str(Path(settings.warm_start).absolute())
    return dataclasses.replace(settings, warm_start=warm_start, data=dataclasses.replace(settings.data, **paths))


def settings_to_dict(settings: Settings) -> dict[str, Any]:
    """The inverse of `build_settings`: plain data for config.json."""
    tree = json.loads(json.dumps(dataclasses.asdict(settings)))  # tuples become lists, as in a file
    return {"task": tree.pop("task"), "model": {"name": tree.pop("model_name"), **tree.pop("model")}, **tree}


def list_differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Describe the differences between two nested mappings of settings."""
    lines = []
    for key in sorted({*before, *now}):
        path, old, new = f"{prefix}{key}", before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += list_differences(old, new, f"{path}.")
        elif old != new:
            lines.append(f"{path} was {old!r} and is now {new!r}")
    return lines
