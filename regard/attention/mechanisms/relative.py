"""Relative positions in keys and values (Shaw, Uszkoreit & Vaswani 2018, eqs. 3 and 4).

    score = (W_Q x_i)·(W_K m_j + a^K_c(j-i)) / sqrt(d_k)           c(x) = max(-clip, min(clip, x))
    out_i = Σ_j α_ij (W_V m_j + a^V_c(j-i))                        values=False leaves a^V out

Trained embeddings, shared by all heads. Scores depend on the content and on the distance alone, and beyond `clip` only
on its side. Computed without an n x n x d tensor (regard/clipped.py), at the price of keeping all scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import clipped_distance
from regard.attention.cost import Cost
from regard.attention.masks import Mask
from regard.attention.mechanisms.qkv_projection import QKV
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Scores, masked_softmax
from regard.attention.token_positions import Grid, PositionIds, QueryKeyPositions, distances
from regard.config.validation import check_positive


@dataclass(frozen=True)
class RelativeScores:
    """query · (key + a^K), the query being scaled already; read adds a^V to the values."""

    query: Tensor
    key: Tensor
    qk_positions: QueryKeyPositions
    on_keys: Tensor
    on_values: Tensor | None

    def weights(self, mask: Mask | None = None) -> Tensor:
        p = self.qk_positions
        return masked_softmax(
            self._logits(), None if mask is None else mask.allowed(p.q_pos, p.k_pos, self.query.device)
        )

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.on_values is None:
            return weights @ value
        shift = _shift(self.qk_positions)
        if shift is not None:
            return clipped_distance.read(weights, value, self.on_values, shift)
        index = self._index(len(self.on_values)).expand_as(weights)
        near = weights.new_zeros(*weights.shape[:-1], len(self.on_values)).scatter_add(-1, index, weights)
        return weights @ value + near @ self.on_values

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return self.apply(self.weights(mask), value)

    def _logits(self) -> Tensor:
        shift = _shift(self.qk_positions)
        if shift is not None:
            return clipped_distance.compare(self.query, self.key, self.on_keys, shift)
        logits = self.query @ self.key.transpose(-2, -1)
        return logits + (self.query @ self.on_keys.t()).gather(-1, self._index(len(self.on_keys)).expand_as(logits))

    def _index(self, size: int) -> Tensor:
        """The row of the table for each pair, where places are no plain stretch: (b or 1, 1, q, k)."""
        index = clipped_distance.clipped(
            distances(self.qk_positions.q_pos, self.qk_positions.k_pos, self.query.device), size // 2
        )
        return index[:, None] if index.dim() == 3 else index[None, None]


def _shift(qk_positions: QueryKeyPositions) -> int | None:
    """How far after the first query the first key stands; None where places are no plain stretch."""
    query, key = _first(qk_positions.q_pos), _first(qk_positions.k_pos)
    return None if query is None or key is None else key - query


def _first(position_ids: PositionIds) -> int | None:
    if isinstance(position_ids, Grid):
        return 0
    return position_ids.start if isinstance(position_ids, range) else None


class RelativeMechanism(QKV):
    name = "relative"
    title = "relative positions in keys and values"
    citation = "Shaw, Uszkoreit & Vaswani 2018, Self-Attention with Relative Position Representations, eqs. 3 and 4"
    reason = "order by distance and not by place: the same anywhere in the text, and with content"
    supports_cross_attention = False
    order_sensitive = True

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        context_dim: int | None = None,
        value_width: int | None = None,
        positions: PositionEncoding | None = None,
        bias: bool = True,
        key_width: int | None = None,
        clip: int = 16,
        values: bool = True,
    ):
        check_positive(self.name, clip=clip)
        super().__init__(
            dim,
            heads,
            context_dim=context_dim,
            value_width=value_width,
            positions=positions,
            bias=bias,
            key_width=key_width,
        )
        self.clip = clip
        self.on_keys = nn.Parameter(_table(clip, self.key_width))
        self.on_values = nn.Parameter(_table(clip, self.value_width)) if values else None

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return RelativeScores(query * self.scale, keys, qk_positions, self.on_keys, self.on_values)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        on_keys = self.key_width
        on_values = 0 if self.on_values is None else self.value_width
        compare = 2 * self.heads * n * m * (self.key_width + self.value_width)
        near = 2 * self.heads * n * (2 * self.clip + 1) * (on_keys + on_values)
        return Cost(self.params(), self.projecting(n, m) + compare + near, 4 * self.heads * n * m)


def _table(clip: int, width: int) -> Tensor:
    return nn.init.xavier_uniform_(torch.empty(2 * clip + 1, width))
