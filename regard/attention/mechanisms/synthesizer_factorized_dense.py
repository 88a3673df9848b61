"""Factorized dense Synthesizer (Tay et al. 2020, section 3): two short rows, tiled and multiplied.

    A = W_A z + b_A,  B = W_B z + b_B,  z = relu(W_1 x_i + b_1)        score = A[j // c] · B[j % c]

A has length / c numbers and B has c, about the square root of the length each, so that j // c and j % c together say
the place j. Each place speaks from itself alone, as in the dense Synthesizer, with far fewer parameters.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.lookup import columns, within
from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import DenseScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions, position_tensor
from regard.config.validation import check_positive


class FactorizedDenseSynthesizer(Mechanism):
    name = "synthesizer-factorized-dense"
    title = "Synthesizer, factorized dense"
    citation = "Tay et al. 2020, Synthesizer: Rethinking Self-Attention in Transformer Models, 3 (Factorized)"
    reason = "the dense Synthesizer with parameters that grow with the square root of the length"
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
        self.short = math.isqrt(length - 1) + 1  # c, the length of B; A has as many as then cover the whole
        self.parts = (-(-length // self.short), self.short)
        self.q = projection(dim, heads * self.hidden, bias)
        self.v = projection(self.context_dim, heads * self.value_width, bias)
        self.rows = nn.ModuleList(_PerHead(heads, self.hidden, width, bias) for width in self.parts)

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        """A and B side by side, (b, h, q, length / c + c)."""
        hidden = split_heads(self.q(x).relu(), self.heads)
        return torch.cat([part(hidden) for part in self.rows], -1)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        within(position_ids, self.length, self.name)
        return x.new_empty(x.shape[0], self.heads, x.shape[1], 0), split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        a, b = query.split(self.parts, -1)
        position_ids = position_tensor(qk_positions.k_pos, query.device)
        return DenseScores(columns(a, position_ids // self.short) * columns(b, position_ids % self.short), qk_positions)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        h, v, u = self.heads, self.value_width, self.hidden
        synthesize = n * u * (self.dim + sum(self.parts))
        return Cost(self.params(), 2 * h * (synthesize + m * self.context_dim * v + n * m * v), 4 * h * n * m)


class _PerHead(nn.Module):
    """A matrix of its own for each head: (b, h, n, d) to (b, h, n, width)."""

    def __init__(self, heads: int, d: int, width: int, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, d, width) * (2 / d) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(heads, 1, width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        return y if self.bias is None else y + self.bias
