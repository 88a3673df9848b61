"""Scaled dot-product attention (Vaswani et al. 2017, eq. 1).

    score = (W_Q x)·(W_K c) / sqrt(d_k)

The scores of all pairs are one matrix product, and kernels fuse it with the softmax.
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.mechanisms.qkv_projection import QKVMechanism
from regard.attention.scores import DotScores, Scores
from regard.attention.token_positions import QueryKeyPositions


class DotMechanism(QKVMechanism):
    """Scaled dot-product attention."""

    name = "dot"
    title = "scaled dot product"
    citation = "Vaswani et al. 2017, Attention Is All You Need, eq. 1"
    reason = "scores of all pairs in one matrix product; the fastest mechanism that compares every query with every key"
    accepts = frozenset({"none", "embed", "rotate", "bias"})

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return DotScores(query, keys, qk_positions, scale=self.scale, bias=self.position_bias(qk_positions))
