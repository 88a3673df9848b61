"""Relative positions in keys and values (Shaw, Uszkoreit & Vaswani 2018, eqs. 3 and 4).

    score = (W_Q x_i)·(W_K c_j + a^K_c(j-i)) / sqrt(d_k)           c(x) = max(-clip, min(clip, x))
    out_i = Σ_j α_ij (W_V c_j + a^V_c(j-i))                        values=False leaves a^V out

The embeddings a are trained and shared by all heads. Scores depend on content and distance; beyond `clip` only the sign
of the distance matters. No n x n x d tensor is computed (attention/clipped_distance.py), but all scores are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import clipped_distance
from regard.attention.cost import Cost
from regard.attention.masks import Mask
from regard.attention.mechanisms.qkv_projection import QKVMechanism
from regard.attention.scores import Scores, allowed_pairs, masked_softmax
from regard.attention.token_positions import Grid, PositionIds, QueryKeyPositions, distances
from regard.config.validation import check_positive


@dataclass(frozen=True)
class RelativeScores:
    """query · (key + a^K) as scores; `apply` adds a^V to the values.

    Args:
        query: Scaled queries, (b, h, q, d).
        key: (b, h, k, d).
        qk_positions: Positions of queries and keys.
        on_keys: a^K, (2 · clip + 1, d).
        on_values: a^V, (2 · clip + 1, value width), or None.
    """

    query: Tensor
    key: Tensor
    qk_positions: QueryKeyPositions
    on_keys: Tensor
    on_values: Tensor | None

    def weights(self, mask: Mask | None = None) -> Tensor:
        return masked_softmax(self._logits(), allowed_pairs(mask, self.qk_positions, self.query.device))

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.on_values is None:
            return weights @ value
        offset = _key_offset(self.qk_positions)
        if offset is not None:
            return clipped_distance.apply(weights, value, self.on_values, offset)
        index = self._table_index(len(self.on_values)).expand_as(weights)
        sums = weights.new_zeros(*weights.shape[:-1], len(self.on_values)).scatter_add(-1, index, weights)
        return weights @ value + sums @ self.on_values

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return self.apply(self.weights(mask), value)

    def _logits(self) -> Tensor:
        offset = _key_offset(self.qk_positions)
        if offset is not None:
            return clipped_distance.logits(self.query, self.key, self.on_keys, offset)
        logits = self.query @ self.key.transpose(-2, -1)
        index = self._table_index(len(self.on_keys)).expand_as(logits)
        return logits + (self.query @ self.on_keys.t()).gather(-1, index)

    def _table_index(self, size: int) -> Tensor:
        """Row of the embedding table for each pair, (b or 1, 1, q, k), for positions that are no range."""
        distance = distances(self.qk_positions.q_pos, self.qk_positions.k_pos, self.query.device)
        index = clipped_distance.table_index(distance, size // 2)
        return index[:, None] if index.dim() == 3 else index[None, None]


def _key_offset(qk_positions: QueryKeyPositions) -> int | None:
    """Position of the first key minus position of the first query. None if positions are not consecutive."""
    query, key = _first(qk_positions.q_pos), _first(qk_positions.k_pos)
    return None if query is None or key is None else key - query


def _first(position_ids: PositionIds) -> int | None:
    if isinstance(position_ids, Grid):
        return 0
    return position_ids.start if isinstance(position_ids, range) else None


class RelativeMechanism(QKVMechanism):
    """Dot-product attention with relative positions in keys and values.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        clip: Largest distance with a separate embedding.
        values: Whether values have relative positions too.
        **options: Options of `QKVMechanism`.
    """

    name = "relative"
    title = "relative positions in keys and values"
    citation = "Shaw, Uszkoreit & Vaswani 2018, Self-Attention with Relative Position Representations, eqs. 3 and 4"
    reason = "word order by distance instead of absolute position: scores are the same anywhere in the text"
    supports_cross_attention = False
    order_sensitive = True

    def __init__(self, dim: int, heads: int, *, clip: int = 16, values: bool = True, **options: Any):
        check_positive(self.name, clip=clip)
        super().__init__(dim, heads, **options)
        self.clip = clip
        self.on_keys = nn.Parameter(_init_table(clip, self.key_width))
        self.on_values = nn.Parameter(_init_table(clip, self.value_width)) if values else None

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return RelativeScores(query * self.scale, keys, qk_positions, self.on_keys, self.on_values)

    def cost(self, n: int, m: int | None = None) -> Cost:
        cost = super().cost(n, m)
        width = self.key_width + (0 if self.on_values is None else self.value_width)
        return replace(cost, flops=cost.flops + 2 * self.heads * n * (2 * self.clip + 1) * width)


def _init_table(clip: int, width: int) -> Tensor:
    return nn.init.xavier_uniform_(torch.empty(2 * clip + 1, width))
