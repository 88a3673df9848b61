"""Build what is to be costed from a name: a mechanism, a layer, or a model.

dot, local:window=64        a layer of multi-head attention with that mechanism
rnn, gru, lstm, convolution a layer of width d
gpt, classify/transformer   a model of a task
regard.models.t5            a model that no task trains
transformer-base            a model with the sizes of its paper
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from torch import nn

from regard.attention.mechanisms import MECHANISMS
from regard.config import specs
from regard.config.settings import build_dataclass
from regard.errors import UserError, suggest_choices
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.models import transformer
from regard.models.configured_model import ModelConfig
from regard.theory.cost import reference_layers

WIDTH_OPTIONS = ("dim", "hidden", "embed")
"""The option that sets the width of a model is the first of these that it has."""
DEFAULT_VOCAB_SIZE = 8000
PAPER_SIZES = {"transformer-base": ("translate/transformer", transformer.BASE, transformer.BASE_VOCAB_SIZE)}
"""Models with the sizes of their papers: name to (model, config, vocabulary size)."""


def build_layer(spec: str, d: int, heads: int, positions: str | None = None) -> nn.Module | None:
    """Build a layer of width d by name; None if there is no layer of that name."""
    name, _ = specs.parse_spec(spec)
    if name in reference_layers.NAMES and name != "local":
        return reference_layers.build_reference_layer(name, d, heads=heads)
    if name in MECHANISMS:
        return MultiHeadAttention(d, heads, spec, positions=positions)
    return None


def build_model(
    name: str,
    configs: Mapping[str, Any],
    options: Mapping[str, Any],
    vocab_size: int | None,
    num_classes: int,
) -> nn.Module:
    """Build a model by name.

    Args:
        name: "task/name", "name", "regard.models.file", or one of `PAPER_SIZES`.
        configs: "task/name" to config class, for the models of all tasks.
        options: Options of the model; "d" is its width. None values are ignored.
        vocab_size: Size of the vocabulary; None for a default.
        num_classes: Number of classes of a classifier.
    """
    full_names = {full.split("/")[1]: full for full in reversed(list(configs))}
    full_name, defaults, paper_vocab_size = PAPER_SIZES.get(name, (full_names.get(name, name), None, None))
    if full_name in configs:
        config_class = configs[full_name]
    elif name.startswith("regard.models."):
        config_class = _config_class(name)
    else:
        choices = sorted({*MECHANISMS, *reference_layers.NAMES, *full_names, *PAPER_SIZES})
        raise UserError(
            f"cannot cost {name!r}: there is no such layer or model; {suggest_choices(name, choices)}, a recipe "
            "(.yaml), or a run folder"
        )
    config = build_config(config_class, options, name, defaults)
    vocab_size = vocab_size or paper_vocab_size or DEFAULT_VOCAB_SIZE
    return build_task_model(config, full_name.split("/")[0], vocab_size, num_classes)


def build_task_model(config: Any, task: str, vocab_size: int, num_classes: int) -> nn.Module:
    """Build the model of a config, with the sizes that models of the task take."""
    if not hasattr(config, "build"):
        raise UserError(
            f"{type(config).__name__} describes a model that is fitted in one call; it has no layers to cost"
        )
    if task == "classify":
        return config.build(vocab_size, num_classes)
    return config.build(num_classes if task == "images" else vocab_size)


def build_config(config_class: type, options: Mapping[str, Any], name: str, defaults: Any = None) -> Any:
    """Build the config of a model.

    Args:
        config_class: The config dataclass.
        options: Its fields, and "d" for the width of the model, whatever its name. None values are ignored.
        name: The name of the model, for error messages.
        defaults: A config whose values replace the defaults of the class.
    """
    fields = {f.name for f in dataclasses.fields(config_class)}
    values = {key: value for key, value in options.items() if key != "d" and value is not None}
    for key in values:
        if key not in fields:
            raise UserError(f"model {name!r} has no option {key!r}; {suggest_choices(key, fields)}")
    if options.get("d") is not None:
        width_option = next((key for key in WIDTH_OPTIONS if key in fields), None)
        if width_option is None:
            raise UserError(
                f"model {name!r} has no width, so --d does not apply; its options: {', '.join(sorted(fields))}"
            )
        values[width_option] = options["d"]
    return build_dataclass(
        config_class, {**(dataclasses.asdict(defaults) if defaults else {}), **values}, where="model"
    )


def _config_class(module_name: str) -> type[ModelConfig]:
    """The config class that a module defines."""
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError:
        raise UserError(f"there is no module {module_name!r}; `regard list` prints the models") from None
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, ModelConfig) and value.__module__ == module_name:
            return value
    raise UserError(f"{module_name} defines no model config")
