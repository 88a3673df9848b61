"""Read values from Hugging Face's config.json: required sizes, and variants that regard does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.errors import UserError

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}
"""Hugging Face's name to regard's."""


def require_int(hf_config: Mapping[str, Any], key: str) -> int:
    """A whole number of 1 or more that must be given."""
    value = hf_config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"config.json: {key!r} must be a whole number of 1 or more, not {value!r}")
    return value


def read_dropout(hf_config: Mapping[str, Any], key: str) -> float:
    """A dropout probability, 0.1 by default."""
    value = hf_config.get(key, 0.1)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise UserError(f"config.json: {key!r} must be a number from 0 to 1, not {value!r}")
    return float(value)


def require_value(hf_config: Mapping[str, Any], key: str, value: Any, reason: str) -> None:
    """Raise UserError if the key is given with another value."""
    if hf_config.get(key, value) not in (value, None):
        raise UserError(f"cannot import {key} = {hf_config[key]!r}, only {value!r}: {reason}")


def read_activation(hf_config: Mapping[str, Any], key: str, default: str) -> str:
    """The name of an activation in regard."""
    name = hf_config.get(key, default)
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise UserError(f"config.json: {key} = {name!r} is not supported; use one of {', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[name]


def hf_activation(name: str) -> str:
    """Hugging Face's name of an activation."""
    return {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}[name]
