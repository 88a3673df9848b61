"""Factorized dense Synthesizer (Tay et al. 2020, section 3): the product of two short rows, repeated and tiled.

    A = W_A z + b_A,  B = W_B z + b_B,  z = relu(W_1 x_i + b_1)        score = A[j // c] · B[j % c]

A has length / c numbers and B has c, each about the square root of the length, and (j // c, j % c) identifies the
position j. Each row of scores depends on its own token alone, as in the dense Synthesizer, with far fewer parameters.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.lookup import select_columns
from regard.attention.mechanisms.mechanism import split_heads, xavier_linear
from regard.attention.mechanisms.synthesizer import Synthesizer
from regard.attention.scores import DenseScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions, position_tensor
from regard.config.validation import check_positive


class FactorizedDenseSynthesizer(Synthesizer):
    """Scores from a two-layer network on the query token, with a factorized output.

    Args:
        dim: Width of the input.
        heads: Number of heads.
        hidden: Width of the hidden layer of one head. Default: dim / heads.
        **options: Options of `Synthesizer`.
    """

    name = "synthesizer-factorized-dense"
    title = "Synthesizer, factorized dense"
    citation = "Tay et al. 2020, Synthesizer: Rethinking Self-Attention in Transformer Models, 3 (Factorized)"
    reason = "the dense Synthesizer with parameters that grow with the square root of the length"

    score_width = 0

    def __init__(self, dim: int, heads: int, *, hidden: int | None = None, **options: Any):
        super().__init__(dim, heads, **options)
        check_positive(self.name, hidden=hidden)
        self.hidden = hidden or max(1, dim // heads)
        self.period = math.isqrt(self.length - 1) + 1  # c, the length of B
        self.widths = (-(-self.length // self.period), self.period)
        self.q = xavier_linear(dim, heads * self.hidden, self.has_bias)
        self.v = self.value_projection()
        self.factors = nn.ModuleList(_PerHeadLinear(heads, self.hidden, w, self.has_bias) for w in self.widths)

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        """A and B concatenated, (b, h, q, length / c + c)."""
        hidden = split_heads(self.q(x).relu(), self.heads)
        return torch.cat([factor(hidden) for factor in self.factors], -1)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        a, b = query.split(self.widths, -1)
        k_pos = position_tensor(qk_positions.k_pos, query.device)
        logits = select_columns(a, k_pos // self.period) * select_columns(b, k_pos % self.period)
        return DenseScores(logits, qk_positions)

    def projection_flops(self, n: int, m: int) -> int:
        return super().projection_flops(n, m) + 2 * self.heads * n * self.hidden * (self.dim + sum(self.widths))


class _PerHeadLinear(nn.Module):
    """A linear layer with a matrix for each head: (b, h, n, d) to (b, h, n, width)."""

    def __init__(self, heads: int, d: int, width: int, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, d, width) * (2 / d) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(heads, 1, width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        return y if self.bias is None else y + self.bias
