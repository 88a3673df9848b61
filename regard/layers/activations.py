"""Activations by the names that a Config uses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from regard.config import specs

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """`"gelu"` is the exact one (erf); `"gelu-tanh"` is GPT-2's approximation of it."""
    return specs.find("activation", name, ACTIVATIONS)
