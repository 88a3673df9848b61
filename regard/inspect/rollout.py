"""Attention through the layers: how much of each input token is in each place, if attention were all that moves it.

    Ã_l = (mean over heads of A_l + I) / 2          R_l = Ã_l R_{l-1},  R_0 = I          (Abnar and Zuidema 2020, eq. 1)

The I is the way round attention (the residual). Rows stay sums of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.inspect.attention_maps import AttentionMap


def rollout(layers: Sequence[Tensor]) -> Tensor:
    """Weights (h, n, n) of each layer, the first first, to (layers, n, n): up to each of them."""
    n = layers[0].shape[-1]
    same = torch.eye(n, dtype=layers[0].dtype)
    reached, found = same, []
    for weights in layers:
        mean = weights.mean(0)
        seen = mean.sum(-1, keepdim=True)  # a place that may see nothing keeps what it has
        step = torch.where(seen > 0, (mean / seen.clamp(min=1e-12) + same) / 2, same)
        reached = step @ reached
        found.append(reached)
    return torch.stack(found)


def stacked(found: Sequence[AttentionMap], axis: str = "tokens") -> list[AttentionMap]:
    """The maps in which a sequence regards itself, layer by layer."""
    return [m for m in found if m.rows == m.columns == axis and m.weights.shape[1] == m.weights.shape[2]]
