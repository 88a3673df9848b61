"""What is to be compared: models, each with the settings that are varied, times seeds."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from regard.config import specs
from regard.config.settings import TrainSettings, expand_model_name, merge_settings, nest
from regard.errors import UserError
from regard.models.linear_text_model import FittableConfig
from regard.tasks.base import get_task
from regard.tasks.build_settings import field_names, task_models

logger = logging.getLogger(__name__)

FROZEN, TUNED = "frozen", "tuned"
IMPORTED = (FROZEN, TUNED)
"""`frozen:folder=DIR`: an imported model as it is, with logistic regression above; `tuned:folder=DIR`: trained on."""

BAGS = ("nb-svm", "tfidf")
"""Bags of words, fitted in seconds: what a classifier must beat."""

LONG = 40
"""Letters of a folder from which on only its end is shown."""


@dataclass(frozen=True)
class Asked:
    """What was asked for; kept in plan.json, so that the same can be asked again. `settings` are those of all designs;
    `search` are settings of which each design tries the values first."""

    task: str
    models: list[Any]
    settings: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, list[str]] = field(default_factory=dict)
    search: dict[str, list[str]] = field(default_factory=dict)
    budget: list[str] = field(default_factory=list)
    seeds: int = 3
    test: list[str] | None = None
    test_fraction: float = 0.2
    split_seed: int = 0
    measure: str | None = None

    def __post_init__(self) -> None:
        if not self.models:
            raise UserError("which models are to be compared? --models han,transformer,nb-svm")
        if self.seeds < 1:
            raise UserError(f"at least one seed is wanted, and {self.seeds} were asked for")
        if not 0 < self.test_fraction < 1:
            raise UserError(f"the test part is a share between 0 and 1, and was given {self.test_fraction}")


@dataclass(frozen=True)
class Design:
    """One row of the table: a name and its settings. `slug` names its folder."""

    name: str
    tree: dict[str, Any]

    @property
    def slug(self) -> str:
        return re.sub(r"[^\w.=-]+", "-", self.name).strip("-")[:100] or "design"

    @property
    def model(self) -> str:
        return str(self.tree["model"]["name"])


def listed(text: str) -> list[str]:
    """`a,b:x=1,y=2,c` as `a`, `b:x=1,y=2` and `c`: what has an '=' belongs to the name before it."""
    found: list[str] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        if "=" in part and ":" not in part.split("=")[0] and found:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def varied(pairs: Sequence[str]) -> dict[str, list[str]]:
    """`["mechanism=dot,additive"]` as a mapping to the values of each setting."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, values = pair.partition("=")
        if not equals or not listed(values):
            raise UserError(f"wanted key=value,value, such as mechanism=dot,additive, and was given {pair!r}")
        found[key.strip()] = listed(values)
    return found


def path_of(key: str) -> list[str]:
    """Where a setting stands: mechanism is model.mechanism, lr is train.lr."""
    if "." in key:
        return key.split(".")
    if key in {f.name for f in dataclasses.fields(TrainSettings)}:
        return ["train", key]
    return [key] if key in ("objective", "label_smoothing", "ensemble_size", "warm_start") else ["model", key]


def with_bags(task: str, models: Sequence[Any]) -> list[Any]:
    """The models asked for and, beside classifiers, the bags of words, unless one of them was asked for."""
    if task != "classify" or not models or any(_model(task, one)[1]["model"]["name"] in BAGS for one in models):
        return list(models)
    logger.info(f"beside them: {' and '.join(BAGS)}, bags of words that are fitted at once")
    return [*models, *BAGS]


def designs(asked: Asked) -> list[Design]:
    """The grid: each model with each combination of the settings that it has."""
    found: list[Design] = []
    for given in asked.models:
        name, tree = _model(asked.task, given)
        axes = [(key, values) for key, values in asked.vary.items() if has(asked.task, tree, path_of(key))]
        for key in asked.vary:
            if key not in dict(axes):
                logger.info(f"{name} has no {key} to vary: it takes part once")
        for values in product(*(values for _, values in axes)):
            changed = tree
            for (key, _), value in zip(axes, values, strict=True):
                changed = merge_settings(changed, nest(path_of(key), value))
            words = [_word(key, value) for (key, _), value in zip(axes, values, strict=True)]
            found.append(Design(", ".join([name, *words]), changed))
    return _distinct(found)


def _model(task: str, given: Any) -> tuple[str, dict[str, Any]]:
    """A name with settings of the model, or a mapping of any settings with a `label`."""
    if isinstance(given, Mapping):
        tree = expand_model_name({key: value for key, value in given.items() if key != "label"})
        if not isinstance(tree.get("model"), Mapping) or "name" not in tree["model"]:
            raise UserError(f"a design wants a model, such as {{model: {{name: han}}}}, and was given {given!r}")
        name = str(given.get("label") or tree["model"]["name"])
    else:
        short, options = specs.parse_spec(str(given))
        name, tree = str(given), {"model": {"name": short, **options}}
        if short in IMPORTED and len(folder := str(options.get("folder", ""))) > LONG:
            name = f"{short}:folder=…/{'/'.join(Path(folder).parts[-2:])}"
    known = {**dict.fromkeys(task_models(task)), **dict.fromkeys(IMPORTED, "")}
    specs.find_choice(f"model for {task}", str(tree["model"]["name"]), known)
    return name, dict(tree)


def has(task: str, tree: Mapping[str, Any], path: list[str]) -> bool:
    """Whether a design has such a setting."""
    model = str(tree["model"]["name"])
    if model in IMPORTED:
        return model == TUNED and path[0] == "train"
    config = task_models(task).find(model)
    if path[0] == "model":
        return path[1] in field_names(config)
    fitted = isinstance(config(), FittableConfig)
    known = field_names(get_task(task).settings_class)
    if path[0] not in known:
        raise UserError(f"no setting {'.'.join(path)!r} can be varied for the task {task!r}")
    return not (fitted and path[0] in ("train", "tokenizer"))


def _word(key: str, value: str) -> str:
    return value if key in ("mechanism", "positions") else f"{key}={value}"


def _distinct(found: list[Design]) -> list[Design]:
    seen: set[str] = set()
    for design in found:
        if design.slug in seen:
            raise UserError(f"two designs are called {design.name!r}; each needs a name of its own (label: ...)")
        seen.add(design.slug)
    return found
