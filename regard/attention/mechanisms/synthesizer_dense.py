"""Dense Synthesizer (Tay et al. 2020, section 3): each position computes its scores from itself alone.

    score = W_2[j] · relu(W_1 x_i + b_1) + b_2[j]            for each head; j is the key position, below `length`

No token is compared with another. W_2 has one row for every position, so the score is a dot product of a query computed
from x_i and a key that depends on the position j only. Only the rows of existing positions are used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.lookup import select_rows
from regard.attention.mechanisms.mechanism import split_heads, xavier_linear
from regard.attention.mechanisms.synthesizer import Synthesizer
from regard.attention.scores import DotScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.config.validation import check_positive


class DenseSynthesizer(Synthesizer):
    """Scores from a two-layer network on the query token.

    Args:
        dim: Width of the input.
        heads: Number of heads.
        hidden: Width of the hidden layer of one head. Default: dim / heads.
        **options: Options of `Synthesizer`.
    """

    name = "synthesizer-dense"
    title = "Synthesizer, dense"
    citation = "Tay et al. 2020, Synthesizer: Rethinking Self-Attention in Transformer Models, 3 (Dense)"
    reason = "tests whether comparing tokens is needed: each row of weights depends on its own token alone"

    def __init__(self, dim: int, heads: int, *, hidden: int | None = None, **options: Any):
        super().__init__(dim, heads, **options)
        check_positive(self.name, hidden=hidden)
        self.hidden = self.score_width = hidden or max(1, dim // heads)
        self.q = xavier_linear(dim, heads * self.hidden, self.has_bias)
        self.v = self.value_projection()
        # A relu halves the mean square, so a variance of 2 / hidden gives scores of variance one.
        self.table = nn.Parameter(torch.randn(heads, self.length, self.hidden) * (2 / self.hidden) ** 0.5)
        self.table_bias = nn.Parameter(torch.zeros(heads, self.length, 1)) if self.has_bias else None

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return split_heads(self.q(x).relu(), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        key = select_rows(self.table, qk_positions.k_pos).expand(query.shape[0], -1, -1, -1)
        bias = None
        if self.table_bias is not None:
            bias = select_rows(self.table_bias, qk_positions.k_pos).transpose(-2, -1)
            bias = bias.expand(query.shape[0], -1, query.shape[2], -1)
        return DotScores(query, key, qk_positions, scale=1.0, bias=bias)

    def projection_flops(self, n: int, m: int) -> int:
        return super().projection_flops(n, m) + 2 * self.heads * n * self.dim * self.hidden
