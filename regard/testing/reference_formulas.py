"""Reference implementations of the scores of built-in mechanisms, as direct as possible, to test the fast ones.

A formula takes the mechanism, its queries (b, h, q, ·) and keys (b, h, k, ·), and the positions. It returns logits
(b, h, q, k). Pass one for your own mechanism as `check_mechanism(cls, formula=...)`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.attention.token_positions import QueryKeyPositions, distances
from regard.testing.mechanism_case import Formula


def dot(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """q·k / sqrt(d_k) + bias of the positions."""
    logits = torch.einsum("bhqd,bhkd->bhqk", query, keys) / math.sqrt(query.shape[-1])
    return logits + _position_bias(mechanism, qk_positions)


def bare(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """q·k, scaled only if scaled=True."""
    return torch.einsum("bhqd,bhkd->bhqk", query, keys) * mechanism.scale + _position_bias(mechanism, qk_positions)


def additive(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """v·tanh(q + k) of all pairs."""
    pairs = torch.tanh(query[:, :, :, None] + keys[:, :, None])
    logits = torch.einsum("bhqkd,hd->bhqk", pairs, mechanism.score_vector)
    return logits + _position_bias(mechanism, qk_positions)


def bilinear(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """(Wᵀx)·c: the query has the width of the context, and all heads share the context."""
    return torch.einsum("bhqd,bkd->bhqk", query, keys[:, 0]) + _position_bias(mechanism, qk_positions)


def local(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """The dot product within the window, -inf elsewhere."""
    outside = distances(qk_positions.q_pos, qk_positions.k_pos).abs() > mechanism.window
    return dot(mechanism, query, keys, qk_positions).masked_fill(outside, -math.inf)


def relative(mechanism: Any, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Tensor:
    """q·(k + a[j - i]) / sqrt(d_k), with a vector for each pair."""
    distance = distances(qk_positions.q_pos, qk_positions.k_pos)
    embedding = mechanism.on_keys[distance.clamp(-mechanism.clip, mechanism.clip) + mechanism.clip]  # (q, k, d)
    logits = torch.einsum("bhqd,bhkd->bhqk", query, keys) + torch.einsum("bhqd,qkd->bhqk", query, embedding)
    return logits / math.sqrt(query.shape[-1])


def _position_bias(mechanism: Any, qk_positions: QueryKeyPositions) -> Tensor | float:
    bias = mechanism.positions.bias(qk_positions.q_pos, qk_positions.k_pos)
    return 0.0 if bias is None else bias


FORMULAS: dict[str, Formula] = {
    "dot": dot,
    "bare": bare,
    "additive": additive,
    "bilinear": bilinear,
    "merged-qk": bilinear,
    "local": local,
    "local-2d": local,
    "relative": relative,
}
