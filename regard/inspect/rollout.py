"""Attention rollout: how much of each input token is in each position, if only attention moved information.

    Ã_l = (mean over heads of A_l + I) / 2          R_l = Ã_l R_{l-1},  R_0 = I          (Abnar and Zuidema 2020, eq. 1)

I is the residual connection. Rows keep their sum of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.inspect.attention_maps import AttentionMap


def rollout(layers: Sequence[Tensor]) -> Tensor:
    """Roll out the weights (h, n, n) of each layer, first layer first: (layers, n, n), up to and including each."""
    n = layers[0].shape[-1]
    identity = torch.eye(n, dtype=layers[0].dtype)
    current, results = identity, []
    for weights in layers:
        mean = weights.mean(0)
        total = mean.sum(-1, keepdim=True)  # a query with no allowed key keeps its own token
        step = torch.where(total > 0, (mean / total.clamp(min=1e-12) + identity) / 2, identity)
        current = step @ current
        results.append(current)
    return torch.stack(results)


def self_attention_maps(maps: Sequence[AttentionMap], axis: str = "tokens") -> list[AttentionMap]:
    """The maps in which a sequence attends to itself, layer by layer."""
    return [m for m in maps if m.rows == m.columns == axis and m.weights.shape[1] == m.weights.shape[2]]
