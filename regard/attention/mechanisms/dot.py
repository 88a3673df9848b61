"""Scaled dot-product attention (Vaswani et al. 2017, eq. 1).

    score = (W_Q x)·(W_K m) / sqrt(d_k)

The reason it is everywhere: scores of all pairs are one matrix product, and kernels fuse them with the softmax.
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.cost import Cost
from regard.attention.mechanisms.qkv_projection import QKV
from regard.attention.scores import DotScores, Scores
from regard.attention.token_positions import QueryKeyPositions


class DotMechanism(QKV):
    name = "dot"
    title = "scaled dot product"
    citation = "Vaswani et al. 2017, Attention Is All You Need, eq. 1"
    reason = "all pairs in one matrix product; the fastest that compares every query with every key"
    accepts = frozenset({"none", "embed", "rotate", "bias"})

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        bias = self.positions.bias(qk_positions.q_pos, qk_positions.k_pos)
        return DotScores(query, keys, qk_positions, scale=self.scale, bias=bias)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        compare = 2 * self.heads * n * m * (self.key_width + self.value_width)
        return Cost(self.params(), self.projecting(n, m) + compare, 4 * self.heads * n * m)
