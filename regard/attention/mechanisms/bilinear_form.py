"""Scores against the context itself, without a key projection: the base of bilinear and merged query-key attention.

    score = xᵀ W_h c + u_h · c = (W_hᵀ x + u_h) · c

The query is projected to the width of the context, and all heads share the context as keys, (b, 1, k, context_dim).
"""

from __future__ import annotations

from abc import ABC
from typing import Any

from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.scores import DenseScores, DotScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions


class BilinearForm(Mechanism, ABC):
    """One matrix of full width between query and context for each head. A subclass creates `q` and `v`."""

    accepts = frozenset({"none", "embed", "bias"})

    q: nn.Linear
    v: nn.Module

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.score_width = self.context_dim

    def score_matrices(self, key_bias: bool) -> nn.Linear:
        """Map x to W_hᵀ x + u_h of all heads, (..., heads · context_dim).

        Scores have variance one at initialization for inputs of variance one, as scaled dot products do.
        """
        linear = nn.Linear(self.dim, self.heads * self.context_dim, key_bias)
        nn.init.normal_(linear.weight, std=(self.dim * self.context_dim) ** -0.5)
        if key_bias:
            nn.init.zeros_(linear.bias)
        return linear

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return split_heads(self.q(x), self.heads)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        return x[:, None], split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        (b, h, q, d), bias = query.shape, self.position_bias(qk_positions)
        if d == self.value_width:
            return DotScores(query, keys.expand(b, h, -1, -1), qk_positions, scale=1.0, bias=bias)
        # The fused kernel needs keys as wide as values. One product for all heads needs no copies of the context.
        logits = (query.reshape(b, h * q, d) @ keys[:, 0].transpose(1, 2)).view(b, h, q, -1)
        return DenseScores(logits if bias is None else logits + bias.to(logits.dtype), qk_positions)

    def projection_flops(self, n: int, m: int) -> int:
        values = m * self.value_width if isinstance(self.v, nn.Linear) else 0
        return 2 * self.heads * self.context_dim * (n * self.dim + values)
