"""The scores of our own mechanisms once more, written out in the plainest way, to hold the quick ones against.

A formula takes the mechanism, the queries (b, h, q, ·) and keys (b, h, k, ·) it made, and the places; it gives logits
(b, h, q, k). An outsider passes one as `check_mechanism(cls, formula=...)`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.attention.token_positions import QueryKeyPositions, distances
from regard.testing.mechanism_case import Formula


def dot(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """q·k / sqrt(d_k), and what the positions add."""
    logits = torch.einsum("bhqd,bhkd->bhqk", query, keys) / math.sqrt(query.shape[-1])
    return logits + _bias(mechanism, qk_positions)


def bare(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """q·k, divided by nothing unless that is asked for."""
    return torch.einsum("bhqd,bhkd->bhqk", query, keys) * mechanism.scale + _bias(mechanism, qk_positions)


def additive(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """v·tanh(q + k): every pair at once."""
    pairs = torch.tanh(query[:, :, :, None] + keys[:, :, None])
    return torch.einsum("bhqkd,hd->bhqk", pairs, mechanism.judge) + _bias(mechanism, qk_positions)


def unprojected(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """(Wᵀx)·m: the query has taken on the memory's width, and all heads share the memory."""
    return torch.einsum("bhqd,bkd->bhqk", query, keys[:, 0]) + _bias(mechanism, qk_positions)


def local(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """The dot product within the window, and nothing elsewhere."""
    far = distances(qk_positions.q_pos, qk_positions.k_pos).abs() > mechanism.window
    return dot(mechanism, query, keys, qk_positions).masked_fill(far, -math.inf)


def relative(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """q·(k + a[j - i]) / sqrt(d_k), with a vector for each pair."""
    clip = mechanism.clip
    each = mechanism.on_keys[distances(qk_positions.q_pos, qk_positions.k_pos).clamp(-clip, clip) + clip]  # (q, k, d)
    logits = torch.einsum("bhqd,bhkd->bhqk", query, keys) + torch.einsum("bhqd,qkd->bhqk", query, each)
    return logits / math.sqrt(query.shape[-1])


def _bias(mechanism: Any, qk_positions: QueryKeyPositions) -> Tensor | float:
    bias = mechanism.positions.bias(qk_positions.q_pos, qk_positions.k_pos)
    return 0.0 if bias is None else bias


FORMULAS: dict[str, Formula] = {
    "dot": dot,
    "bare": bare,
    "additive": additive,
    "bilinear": unprojected,
    "merged": unprojected,
    "local": local,
    "local-2d": local,
    "relative": relative,
}
