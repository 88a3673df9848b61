"""All settings: one frozen tree of dataclasses, filled from a file and the command line. Free of torch, so that help
is quick.

An unknown key is an error that names the nearest one; a value of the wrong type is an error that says which is wanted.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import UserError, nearest

T = TypeVar("T")

LENGTHS = ("epochs", "steps", "budget")
"""What the length of training is counted in: one of them."""


@dataclass(frozen=True)
class DataSettings:
    """What is asked of the data of every task; each adds its own, and first of all `train`."""

    valid: str | None = None
    valid_fraction: float = 0.1
    batch_tokens: int = 4096


@dataclass(frozen=True)
class TokenizerSettings:
    kind: str = "words"
    vocab: int = 20_000


@dataclass(frozen=True)
class TrainSettings:
    """How long and how to train. The length is one of epochs, steps or budget (seconds, turned into steps by a
    probe). `average` is the decay of a moving average of the weights, which is then evaluated and kept in their
    place."""

    epochs: int | None = None
    steps: int | None = None
    budget: float | None = None
    optimizer: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.1
    decay: str = "cosine"
    clip: float = 1.0
    accumulate: int = 1
    evaluate_every: int | None = None
    patience: int | None = None
    average: float | None = None
    checkpoint_seconds: float = 60.0
    precision: str = "32"
    devices: int = 1
    nodes: int = 1
    strategy: str = "auto"
    threads: int | None = None


@dataclass(frozen=True)
class Settings:
    """What to train, on what, how long. `model` is the Config dataclass that stands beside the model's code; `data` and
    what else a task needs stand with it, in regard/runs. `origin` is the run that training starts from."""

    task: str
    model: Any
    model_name: str
    seed: int = 0
    origin: str | None = None
    data: Any = field(default_factory=DataSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    train: TrainSettings = field(default_factory=TrainSettings)


def build(cls: type[T], given: Mapping[str, Any], *, where: str = "") -> T:
    """Fill a dataclass from a mapping, converting each value to its field's type."""
    hints = typing.get_type_hints(cls)
    known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    values = {}
    for key, value in given.items():
        path = f"{where}.{key}" if where else key
        if key not in known:
            raise UserError(f"unknown setting {path!r}; {nearest(str(key), known)}")
        values[key] = convert(hints[key], value, path)
    return cls(**values)


def convert(kind: Any, value: Any, path: str) -> Any:
    """One value to the type that its field declares; text from the command line is read as that type."""
    if kind is Any:
        return value
    options = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    if type(None) in options and (value is None or (isinstance(value, str) and value.lower() in ("none", "null"))):
        return None
    for option in options:
        if typing.get_origin(option) is tuple:  # of any length, of one type
            given = listed(value) if isinstance(value, str) else value
            if isinstance(given, (list, tuple)):
                return tuple(convert(typing.get_args(option)[0], one, path) for one in given)
        if dataclasses.is_dataclass(option):
            if isinstance(value, option):  # type: ignore[arg-type]
                return value
            if isinstance(value, Mapping):
                return build(option, value, where=path)  # type: ignore[type-var]
        elif option is bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
                return value.lower() in ("true", "yes", "on", "1")
        elif option is int:
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(_\d+)*", value):
                return int(value)
        elif option is float and not isinstance(value, bool):
            try:
                return float(value)
            except (TypeError, ValueError):
                continue
        elif option is str:
            if isinstance(value, str):
                return value
            if isinstance(value, int) and not isinstance(value, bool):  # a file may say `precision: 32` or `text: 3`
                return str(value)
    wanted = " or ".join("none" if o is type(None) else getattr(o, "__name__", str(o)) for o in options)
    raise UserError(f"{path} wants {wanted}, and was given {value!r}")


def listed(text: str) -> tuple[str, ...]:
    """`[a, b]`, as a file would have it, as its parts; any other text is one."""
    if not (text.startswith("[") and text.endswith("]")):
        return (text,)
    return tuple(part.strip() for part in text[1:-1].split(",") if part.strip())


def overrides(pairs: list[str]) -> dict[str, Any]:
    """`["train.lr=0.1", "seed=3"]` as a nested mapping, values still text."""
    tree: dict[str, Any] = {}
    for pair in pairs:
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise UserError(f"--set wants key=value, such as --set train.lr=0.001, and was given {pair!r}")
        tree = merge(tree, spelled_out(nest(path.strip().split("."), value.strip())))
    return tree


def nest(path: list[str], value: Any) -> dict[str, Any]:
    return {path[0]: value if len(path) == 1 else nest(path[1:], value)}


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One nested mapping laid over another; neither is changed."""
    laid = dict(under)
    for key, value in over.items():
        below = laid.get(key)
        nested = isinstance(value, Mapping)
        laid[key] = merge(below if isinstance(below, Mapping) else {}, value) if nested else value
    return laid


def spelled_out(tree: Mapping[str, Any]) -> dict[str, Any]:
    """`model: han`, short for a mapping with that name, as the mapping, which can be laid over another."""
    short = isinstance(tree.get("model"), str)
    return {**tree, "model": {"name": tree["model"]}} if short else dict(tree)


def load(path: str | Path) -> dict[str, Any]:
    """A YAML or JSON file of settings as a nested mapping."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"no settings file {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            tree = json.loads(text)
        else:
            import yaml

            tree = yaml.safe_load(text)
    except Exception as problem:
        raise UserError(f"{path} is not valid {'JSON' if path.suffix == '.json' else 'YAML'}: {problem}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{path} must hold a mapping of settings, and holds {type(tree).__name__}")
    return spelled_out(tree)


_UNITS = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
}


def seconds(text: str | float | None) -> float | None:
    """`2min`, `90s`, `1.5h` or a bare number of seconds."""
    if text is None or isinstance(text, (int, float)):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text).lower())
    if not match or match[2] not in _UNITS:
        raise UserError(f"a time such as 90s, 2min or 1.5h is wanted, and was given {text!r}")
    return float(match[1]) * _UNITS[match[2]]
