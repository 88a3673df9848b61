"""The bare layer of K heads: key width U apart from value width I, heads joined by nothing but concatenation.

    score = (W_Q x)·(W_K m)             W_Q, W_K (U, dim), W_V (I, dim) for each head; no bias, no scaling
    out   = [head_1; ...; head_K]       I = dim / K

This is how a course writes the Transformer's layer down. Scores are not divided by sqrt(U), unless scaled=True; then
an output matrix and biases are all that the general layer has more.
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.cost import Cost
from regard.attention.mechanisms.mechanism import Mechanism, PackedLinear, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import DotScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.config.validation import check_positive


class BareMechanism(Mechanism):
    name = "bare"
    title = "bare heads"
    citation = "Vaswani et al. 2017, 3.2.2, without W_O, bias and scaling (TTIC 31230, 2020, attention problem 4)"
    reason = "the least that is multi-head attention: what scaling, biases and the output matrix add can be measured"
    accepts = frozenset({"none", "embed", "rotate", "bias"})
    output_proj = False

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
        scaled: bool = False,
    ):
        """`bias` is taken, as every mechanism takes it, and left unused: the bare layer has none."""
        super().__init__(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias)
        check_positive(self.name, key_width=key_width)
        self.key_width = key_width or self.value_width
        self.positions.check_width(self.key_width)
        self.scale = self.key_width**-0.5 if scaled else 1.0
        keys, values = heads * self.key_width, heads * self.value_width
        self.q = projection(dim, keys, bias=False)
        self.kv = PackedLinear(self.context_dim, (keys, values), bias=False)

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return self.positions.rotate(split_heads(self.q(x), self.heads), position_ids)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        k, v = self.kv.all(x)
        return self.positions.rotate(split_heads(k, self.heads), position_ids), split_heads(v, self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        bias = self.positions.bias(qk_positions.q_pos, qk_positions.k_pos)
        return DotScores(query, keys, qk_positions, scale=self.scale, bias=bias)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        u, v, h = self.key_width, self.value_width, self.heads
        project = 2 * h * (n * self.dim * u + m * self.context_dim * (u + v))
        return Cost(self.params(), project + 2 * h * n * m * (u + v), 4 * h * n * m)
