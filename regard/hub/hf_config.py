"""Reading another library's config.json: what must be there, and what cannot be another way."""

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


def need(config: Mapping[str, Any], key: str) -> int:
    """A size that must be there."""
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"config.json must give {key!r} as a whole number above 0, and gives {value!r}")
    return value


def dropout(config: Mapping[str, Any], key: str) -> float:
    """A share of what is dropped, a tenth where none is given."""
    value = config.get(key, 0.1)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise UserError(f"config.json must give {key!r} as a number from 0 to 1, and gives {value!r}")
    return float(value)


def only(config: Mapping[str, Any], key: str, value: Any, why: str) -> None:
    """Refuse a variant that the model here does not have."""
    if config.get(key, value) not in (value, None):
        raise UserError(f"config.json gives {key} = {config[key]!r}; only {value!r} can be imported: {why}")


def activation(config: Mapping[str, Any], key: str, default: str) -> str:
    """Their name of an activation to ours."""
    name = config.get(key, default)
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise UserError(f"config.json gives {key} = {name!r}; known are {', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[name]


def activation_back(name: str) -> str:
    """Our name of an activation to theirs."""
    return {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}[name]
