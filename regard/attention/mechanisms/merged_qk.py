"""Merged query-key attention: one matrix W_QK for each head instead of W_Q and W_K.

    score = xᵀ W_h c + u_h · c          W_h = W_Qᵀ W_K / sqrt(d_k),  u_h = W_Kᵀ b_Q / sqrt(d_k)

It equals the scaled dot product that it is merged from (`regard.layers.merge_qk`): the term of the key bias is constant
along a row and cancels in the softmax; the term of the query bias is u, which depends on the key only. W_h need not
have the low rank d_k, so it is more expressive, and costs dim² parameters a head instead of 2 · dim · d_k. Keys as wide
as the context do not fit the fused kernel: heads x n x m scores are stored, at 2 · dim FLOPs each instead of 2 · d_k.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.attention.mechanisms.bilinear_form import BilinearForm


class MergedQKMechanism(BilinearForm):
    """Dot-product attention with the query and key matrices multiplied.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        key_bias: Whether there is a term u. Default: as `bias`.
        **options: Options of `Mechanism`.
    """

    name = "merged-qk"
    title = "merged query-key"
    citation = "the scaled dot product of Vaswani et al. 2017, eq. 1, with the query and key matrices multiplied"
    reason = "shows what the query and key matrices compute together; scores of full rank"

    v: nn.Linear

    def __init__(self, dim: int, heads: int, *, key_bias: bool | None = None, **options: Any):
        super().__init__(dim, heads, **options)
        self.q = self.score_matrices(key_bias=self.has_bias if key_bias is None else key_bias)
        self.v = self.value_projection()
