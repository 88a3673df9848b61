"""Take heads out for good: what they read is multiplied by zero where the heads are joined.

    out = W_O [head_1; ...; head_h]        the columns of W_O that belong to the head become 0

The model keeps its shape and is saved like any other; it says what it would with the head ablated, always. (Michel et
al. 2019, Are Sixteen Heads Really Better than One?, section 4.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from regard.errors import UserError
from regard.inspect.record import attends


def prune(model: nn.Module, site: str, heads: Sequence[int]) -> None:
    """The heads at this site read nothing from now on."""
    attends(model, site)
    layer = model.get_submodule(site.rpartition(".")[0])
    out, count = getattr(layer, "out", None), head_count(model, site)
    if not isinstance(out, nn.Linear) or count is None:
        raise UserError(f"the heads at {site} are not joined by a matrix, so that none can be taken out; use `ablate`")
    for head in heads:
        if not 0 <= head < count:
            raise UserError(f"{site} has heads 0 to {count - 1}, and {head} was given")
        width = out.in_features // count
        with torch.no_grad():
            out.weight[:, head * width : (head + 1) * width] = 0.0


def head_count(model: nn.Module, site: str) -> int | None:
    """How many heads attend at a site, where its layer says so."""
    layer = model.get_submodule(site.rpartition(".")[0])
    heads = getattr(getattr(layer, "mechanism", None), "heads", None)
    return heads if isinstance(heads, int) else None
