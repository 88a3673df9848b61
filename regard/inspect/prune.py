"""Remove heads for good: the columns of the output projection that belong to them become zero.

    out = W_O [head_1; ...; head_h]

The model keeps its shape and is saved like any other. Its output is that with the heads ablated. (Michel et al. 2019,
Are Sixteen Heads Really Better than One?, section 4.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from regard.errors import UserError
from regard.inspect.record import find_attention_layers


def prune(model: nn.Module, layer: str, heads: Sequence[int]) -> None:
    """Prune these heads of an attention layer, in place."""
    find_attention_layers(model, layer)
    owner, count = _owner(model, layer), count_heads(model, layer)
    projection = getattr(owner, "out_proj" if isinstance(owner, nn.MultiheadAttention) else "out", None)
    if not isinstance(projection, nn.Linear) or count is None:
        raise UserError(f"{layer} has no output projection, so its heads cannot be pruned; use `ablate`")
    for head in heads:
        if not 0 <= head < count:
            raise UserError(f"{layer} has heads 0 to {count - 1}, and {head} was given")
        width = projection.in_features // count
        with torch.no_grad():
            projection.weight[:, head * width : (head + 1) * width] = 0.0


def count_heads(model: nn.Module, layer: str) -> int | None:
    """Number of heads of an attention layer; None if it has no heads."""
    owner = _owner(model, layer)
    if isinstance(owner, nn.MultiheadAttention):
        return owner.num_heads
    heads = getattr(getattr(owner, "mechanism", None), "heads", None)
    return heads if isinstance(heads, int) else None


def _owner(model: nn.Module, layer: str) -> nn.Module:
    """The module with the projections: torch's layer itself, or the parent of an `Attend`."""
    module = model.get_submodule(layer)
    return module if isinstance(module, nn.MultiheadAttention) else model.get_submodule(layer.rpartition(".")[0])
