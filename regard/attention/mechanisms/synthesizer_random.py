"""Random Synthesizer (Tay et al. 2020, section 3): the scores are numbers of their own, the same for every input.

score = R[i, j]                     for each head; places i and j below `length`; trained, or left as drawn
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.lookup import columns, rows, within
from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import DenseScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.config.validation import check_positive


class RandomSynthesizer(Mechanism):
    name = "synthesizer-random"
    title = "Synthesizer, random"
    citation = "Tay et al. 2020, Synthesizer: Rethinking Self-Attention in Transformer Models, 3 (Random)"
    reason = "attention that does not look at the input at all: how much of a result is due to looking"
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
        trained: bool = True,
    ):
        super().__init__(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias)
        check_positive(self.name, length=length)
        self.length = length
        self.v = projection(self.context_dim, heads * self.value_width, bias)
        # Kept in the state even where it is not trained: it is what was drawn.
        table = torch.randn(heads, length, length)
        self.table: Tensor
        if trained:
            self.table = nn.Parameter(table)
        else:
            self.register_buffer("table", table)

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        within(position_ids, self.length, self.name)
        return x.new_empty(x.shape[0], self.heads, x.shape[1], 0)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        within(position_ids, self.length, self.name)
        return x.new_empty(x.shape[0], self.heads, x.shape[1], 0), split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        of_queries = rows(self.table, qk_positions.q_pos)  # (h, q, L) or (b, h, q, L)
        logits = columns(of_queries if of_queries.dim() == 4 else of_queries[None], qk_positions.k_pos)
        return DenseScores(logits.expand(query.shape[0], -1, -1, -1), qk_positions)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        values = self.heads * self.value_width
        return Cost(self.params(), 2 * m * values * (self.context_dim + n), 4 * self.heads * n * m)
