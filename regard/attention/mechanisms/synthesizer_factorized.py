"""Factorized random Synthesizer (Tay et al. 2020, section 3): the table of scores as a product of two thin ones.

score = R_1[i] · R_2[j]             R_1, R_2 (length, rank) for each head; the paper takes rank 8
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.lookup import rows, within
from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import DenseScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.config.validation import check_positive


class FactorizedSynthesizer(Mechanism):
    name = "synthesizer-factorized"
    title = "Synthesizer, factorized random"
    citation = "Tay et al. 2020, Synthesizer: Rethinking Self-Attention in Transformer Models, 3 (Factorized)"
    reason = "the random Synthesizer with parameters that grow with the length, not with its square"
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
        length: int = 512,
        rank: int = 8,
    ):
        super().__init__(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias)
        check_positive(self.name, length=length, rank=rank)
        self.length, self.rank = length, rank
        self.v = projection(self.context_dim, heads * self.value_width, bias)
        std = rank**-0.25  # scores of variance one
        self.of_queries = nn.Parameter(torch.randn(heads, length, rank) * std)
        self.of_keys = nn.Parameter(torch.randn(heads, length, rank) * std)

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        within(position_ids, self.length, self.name)
        return x.new_empty(x.shape[0], self.heads, x.shape[1], 0)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        within(position_ids, self.length, self.name)
        return x.new_empty(x.shape[0], self.heads, x.shape[1], 0), split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        # One table for the whole batch, unless each row of it has places of its own.
        logits = rows(self.of_queries, qk_positions.q_pos) @ rows(self.of_keys, qk_positions.k_pos).transpose(-2, -1)
        return DenseScores(logits.expand(query.shape[0], -1, -1, -1), qk_positions)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        h, v = self.heads, self.value_width
        return Cost(self.params(), 2 * h * (m * self.context_dim * v + n * m * (self.rank + v)), 4 * h * n * m)
