"""Settings: a tree of frozen dataclasses that is filled from a file and from the command line.

An unknown key is an error that suggests the nearest one; a value of a wrong type is an error that names the type.
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

from regard.errors import UserError, did_you_mean

T = TypeVar("T")

LENGTH_SETTINGS = ("epochs", "steps", "budget")
"""Settings for the length of training; one of them is set."""


def setting(default: Any, help: str, *, metavar: str | None = None) -> Any:
    """A field of a settings dataclass that documents itself: `regard train TASK --help` shows the text.

    Args:
        default: Default value of the field.
        help: What the setting does, in one line.
        metavar: How the value is called in the help, such as RUN.

    Example:
        >>> @dataclass(frozen=True)
        ... class ImageData(DataSettings):
        ...     size: int = setting(64, "Side of an image in pixels.")
    """
    return field(default=default, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True)
class DataSettings:
    """Data settings that every task has. A task adds its own, at least `train`."""

    valid: str | None = setting(None, "Validation file. [a fraction of the training data is held out]")
    valid_fraction: float = setting(0.1, "Fraction of the training data that is held out without a validation file.")
    batch_tokens: int = setting(4096, "Tokens in a batch.")


@dataclass(frozen=True)
class TokenizerSettings:
    """Settings of the tokenizer that is trained on the training data."""

    kind: str = setting("words", "Tokenizer: words, bpe, chars, or spaces (text that is already split into words).")
    vocab_size: int = setting(20_000, "Size of the vocabulary.")


@dataclass(frozen=True)
class TrainSettings:
    """How long and how to train. The length is one of `epochs`, `steps` or `budget`."""

    epochs: int | None = setting(None, "Passes over the training data. [5, unless --steps or --budget is given]")
    steps: int | None = setting(None, "Optimizer steps, instead of epochs.")
    budget: float | None = setting(None, "Training time, instead of epochs: 90s, 2min, 1h.")
    optimizer: str = setting("adamw", "Optimizer: adamw or muon.")
    lr: float = setting(1e-3, "Peak learning rate.")
    weight_decay: float = setting(0.01, "Weight decay.")
    warmup: float = setting(0.1, "Fraction of the steps over which the learning rate rises.")
    decay: str = setting("cosine", "How the learning rate falls after the warmup: cosine, linear or constant.")
    clip: float = setting(1.0, "Largest norm of the gradient; 0 for no clipping.")
    grad_accumulation: int = setting(1, "Compute each batch in N parts and add up their gradients.")
    evaluate_every: int | None = setting(None, "Steps between evaluations. [chosen by the length of training]")
    patience: int | None = setting(None, "Stop after N evaluations without improvement.")
    ema_decay: float | None = setting(
        None, "Decay of an exponential moving average of the weights, such as 0.999; the averaged weights are saved."
    )
    checkpoint_seconds: float = setting(60.0, "Seconds between checkpoints.")
    precision: str = setting("32", "Floating-point precision: 32, auto, bf16-mixed or 16-mixed.")
    num_devices: int = setting(1, "Number of processes or accelerators.")
    num_nodes: int = setting(1, "Number of machines, under torchrun.")
    strategy: str = setting("auto", "Distributed strategy: auto, ddp or fsdp.")
    threads: int | None = setting(None, "CPU threads. [all cores]")


@dataclass(frozen=True)
class Settings:
    """Settings of a run: what to train, on which data, for how long.

    `model` is the config of the model, such as `HANConfig`. Each task has a subclass with its own `data` and more.
    """

    task: str
    model: Any
    model_name: str
    seed: int = setting(0, "Random seed. The same seed gives the same result.")
    warm_start: str | None = setting(
        None,
        "Run to start from: its tokenizer, sizes and weights. Or a recipe (.yaml), which is trained first.",
        metavar="RUN",
    )
    data: Any = field(default_factory=DataSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    train: TrainSettings = field(default_factory=TrainSettings)


def build_dataclass(cls: type[T], values: Mapping[str, Any], *, where: str = "") -> T:
    """Build a dataclass from a mapping. Each value is converted to the type of its field.

    Args:
        cls: The dataclass.
        values: Values by field. Fields that are missing have their defaults.
        where: Path of the dataclass in the tree of settings, for messages.
    """
    hints = typing.get_type_hints(cls)
    fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    converted = {}
    for key, value in values.items():
        path = f"{where}.{key}" if where else key
        if key not in fields:
            raise UserError(f"unknown setting {path!r}; {did_you_mean(str(key), fields)}")
        converted[key] = convert_value(hints[key], value, path)
    return cls(**converted)


def convert_value(hint: Any, value: Any, path: str) -> Any:
    """Convert a value to a type. Text, as from the command line, is parsed.

    Args:
        hint: The type: a dataclass, bool, int, float, str, a tuple of any length, or a union of these.
        value: The value.
        path: Name of the setting, for messages.
    """
    if hint is Any:
        return value
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if type(None) in options and (value is None or (isinstance(value, str) and value.lower() in ("none", "null"))):
        return None
    for option in options:
        if typing.get_origin(option) is tuple:
            items = split_list(value) if isinstance(value, str) else value
            if isinstance(items, (list, tuple)):
                return tuple(convert_value(typing.get_args(option)[0], item, path) for item in items)
        if dataclasses.is_dataclass(option):
            if isinstance(value, option):  # type: ignore[arg-type]
                return value
            if isinstance(value, Mapping):
                return build_dataclass(option, value, where=path)  # type: ignore[type-var]
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
            if isinstance(value, int) and not isinstance(value, bool):  # `precision: 32` or `text: 3` in a file
                return str(value)
    names = " or ".join(
        "none" if option is type(None) else getattr(option, "__name__", str(option)) for option in options
    )
    raise UserError(f"{path} must be {names}, not {value!r}")


def split_list(text: str) -> tuple[str, ...]:
    """Split `[a, b]`, the notation of a YAML file, into its items. Any other text is one item."""
    if not (text.startswith("[") and text.endswith("]")):
        return (text,)
    return tuple(item.strip() for item in text[1:-1].split(",") if item.strip())


def parse_overrides(pairs: list[str]) -> dict[str, Any]:
    """Parse `["train.lr=0.1", "seed=3"]` to a nested mapping. The values stay text."""
    tree: dict[str, Any] = {}
    for pair in pairs:
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise UserError(f"--set must be KEY=VALUE, such as --set train.lr=0.001, not {pair!r}")
        tree = merge_settings(tree, expand_model_name(nest_value(path.strip().split("."), value.strip())))
    return tree


def nest_value(path: list[str], value: Any) -> dict[str, Any]:
    """A nested mapping with one value: `nest_value(["train", "lr"], 0.1)` is {"train": {"lr": 0.1}}."""
    return {path[0]: value if len(path) == 1 else nest_value(path[1:], value)}


def merge_settings(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two nested mappings into a new one. Values of `override` replace those of `base`."""
    merged = dict(base)
    for key, value in override.items():
        if isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = merge_settings(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def expand_model_name(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Write `model: han` as `model: {name: han}`, which can be merged."""
    is_name = isinstance(tree.get("model"), str)
    return {**tree, "model": {"name": tree["model"]}} if is_name else dict(tree)


def load_settings(path: str | Path) -> dict[str, Any]:
    """Read a YAML or JSON file of settings as a nested mapping."""
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
    except Exception as error:
        raise UserError(f"{path} is not valid {'JSON' if path.suffix == '.json' else 'YAML'}: {error}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{path} must contain a mapping of settings, not {type(tree).__name__}")
    return expand_model_name(tree)


_SECONDS = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
}


def parse_duration(duration: str | float | None) -> float | None:
    """Parse `2min`, `90s`, `1.5h` or a number of seconds to seconds."""
    if duration is None or isinstance(duration, (int, float)):
        return duration
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(duration).lower())
    if not match or match[2] not in _SECONDS:
        raise UserError(f"a duration must be like 90s, 2min or 1.5h, not {duration!r}")
    return float(match[1]) * _SECONDS[match[2]]
