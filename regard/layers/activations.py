"""Activation functions by the name in a config."""

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
    """Find an activation. "gelu" is the exact one (erf); "gelu-tanh" is the approximation that GPT-2 uses."""
    return specs.find_choice("activation", name, ACTIVATIONS)
