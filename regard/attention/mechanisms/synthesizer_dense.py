"""Dense Synthesizer (Tay et al. 2020, section 3): each place says from itself alone where to look.

    score = W_2[j] · relu(W_1 x_i + b_1) + b_2[j]            for each head; j is the key's place, below `length`

No token is compared with another. W_2 has one row for every place, so the score is the product of a query made of x_i
and a key that is the place itself, and only the places that are there are computed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.lookup import rows, within
from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import DotScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.config.validation import check_positive


class DenseSynthesizer(Mechanism):
    name = "synthesizer-dense"
    title = "Synthesizer, dense"
    citation = "Tay et al. 2020, Synthesizer: Rethinking Self-Attention in Transformer Models, 3 (Dense)"
    reason = "is comparing tokens needed? Here each row of weights comes from its own place alone"
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
        hidden: int | None = None,
    ):
        super().__init__(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias)
        check_positive(self.name, length=length, hidden=hidden)
        self.length, self.hidden = length, hidden or max(1, dim // heads)
        self.q = projection(dim, heads * self.hidden, bias)
        self.v = projection(self.context_dim, heads * self.value_width, bias)
        # A relu halves the mean square of what it lets through, so 2 / hidden lets scores start with variance one.
        self.table = nn.Parameter(torch.randn(heads, length, self.hidden) * (2 / self.hidden) ** 0.5)
        self.table_bias = nn.Parameter(torch.zeros(heads, length, 1)) if bias else None

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return split_heads(self.q(x).relu(), self.heads)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        within(position_ids, self.length, self.name)
        return x.new_empty(x.shape[0], self.heads, x.shape[1], 0), split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        key = rows(self.table, qk_positions.k_pos).expand(query.shape[0], -1, -1, -1)
        bias = None
        if self.table_bias is not None:
            bias = rows(self.table_bias, qk_positions.k_pos).transpose(-2, -1)
            bias = bias.expand(query.shape[0], -1, query.shape[2], -1)
        return DotScores(query, key, qk_positions, scale=1.0, bias=bias)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        u, v, h = self.hidden, self.value_width, self.heads
        project = 2 * h * (n * self.dim * u + m * self.context_dim * v)
        return Cost(self.params(), project + 2 * h * n * m * (u + v), 4 * h * n * m)
