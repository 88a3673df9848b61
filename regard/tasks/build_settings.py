"""From what the user wrote (a file of settings, options, overrides) to the whole tree of settings, and back to plain
data."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from regard.config import specs
from regard.config.settings import LENGTHS, Settings, build, seconds, spelled_out
from regard.errors import UserError, did_you_mean
from regard.tasks.base import kind

S = TypeVar("S", bound=Settings)


def models(task: str) -> Mapping[str, str]:
    """The models of a task: name -> module."""
    return kind(task).MODELS


def model_module(task: str, name: str) -> ModuleType:
    """The file of a model, which holds its Config."""
    return importlib.import_module(specs.find(f"model for {task}", name, models(task)))


def resolve(task: str, tree: Mapping[str, Any]) -> Settings:
    """Settings from a nested mapping, in which "model" holds "name" and that model's own settings."""
    # a bare `train:` in a file says nothing
    made = kind(task)
    tree = made.own({key: value for key, value in spelled_out(tree).items() if value is not None})
    model = tree.pop("model", {})
    if not isinstance(model, Mapping):
        raise UserError(f"model wants a name or a mapping with a name, and was given {model!r}")
    chosen = dict(model)
    name = str(chosen.pop("name", made.default(tree)))
    config = model_module(task, name).Config
    fields = [f.name for f in dataclasses.fields(config)]
    for part in ("mechanism", "positions"):
        if part in chosen and part not in fields:
            able = [
                m for m in models(task) if part in {f.name for f in dataclasses.fields(model_module(task, m).Config)}
            ]
            raise UserError(
                f"model {name!r} has no choice of {part}; these have: {', '.join(able)} (see `regard list`)"
            )
    known = [f.name for f in dataclasses.fields(made.SETTINGS) if f.name not in ("task", "model_name")]
    for key in tree:
        if key not in known:
            raise UserError(f"unknown setting {key!r}; {did_you_mean(str(key), known)}")
    length = tree.get("train")
    if isinstance(length, Mapping) and str(length.get("budget")).lower() not in ("none", "null"):
        tree["train"] = {**length, "budget": seconds(length["budget"])}
    settings = build(
        made.SETTINGS, {**tree, "task": task, "model_name": name, "model": build(config, chosen, where="model")}
    )
    given = [k for k in LENGTHS if getattr(settings.train, k) is not None]
    if len(given) > 1:
        raise UserError(f"the length of training is one of epochs, steps or budget; given {' and '.join(given)}")
    if not given:
        settings = dataclasses.replace(settings, train=dataclasses.replace(settings.train, epochs=5))
    if settings.data.batch_tokens < 1:
        raise UserError(f"data.batch_tokens must be 1 or more, and was given {settings.data.batch_tokens}")
    if not 0 <= settings.seed < 2**32:
        raise UserError(f"seed must lie between 0 and {2**32 - 1}, and was given {settings.seed}")
    made.check(settings)
    return settings


def absolute(settings: S) -> S:
    """Paths made absolute, so that a run can be resumed from anywhere."""
    fixed: dict[str, Any] = {}
    for part in ("train", "valid", "weights"):
        given = getattr(settings.data, part, None)
        if isinstance(given, str) and given:
            fixed[part] = str(Path(given).absolute())
        elif isinstance(given, tuple):
            fixed[part] = tuple(str(Path(path).absolute()) for path in given)
    origin = None if settings.origin is None else str(Path(settings.origin).absolute())
    return dataclasses.replace(settings, origin=origin, data=dataclasses.replace(settings.data, **fixed))


def as_tree(settings: Settings) -> dict[str, Any]:
    """The inverse of `resolve`, as plain data for config.json."""
    tree = json.loads(json.dumps(dataclasses.asdict(settings)))  # tuples as the lists that a file gives back
    return {
        "task": tree.pop("task"),
        "model": {"name": tree.pop("model_name"), **tree.pop("model")},
        **tree,
    }


def differences(a: Mapping[str, Any], b: Mapping[str, Any], where: str = "") -> list[str]:
    """What differs between two trees, in words."""
    said = []
    for key in sorted({*a, *b}):
        path, x, y = f"{where}{key}", a.get(key), b.get(key)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            said += differences(x, y, f"{path}.")
        elif x != y:
            said.append(f"{path} was {x!r} and is now {y!r}")
    return said
