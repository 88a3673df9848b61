"""Merged query-key attention: one matrix for each head in place of two.

    score = xᵀ W_h m + u_h · m          W_h = W_Qᵀ W_K / sqrt(d_k),  u_h = W_Kᵀ b_Q / sqrt(d_k)

Equal to the scaled dot product it is made from (`regard.layers.merge`): what a bias of the keys adds is the same along
a row and falls out of the softmax, what a bias of the queries adds is the key-only term u. It can say more, since W_h
need not have the low rank d_k, and costs dim² numbers a head against 2 · dim · d_k. As run, keys as wide as the memory
leave the fused kernel: scores are kept, heads x n x m of them, at 2 · dim FLOPs each instead of 2 · d_k.
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.cost import Cost
from regard.attention.mechanisms.bilinear_form import against, matrices, towards, work
from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions


class MergedMechanism(Mechanism):
    name = "merged"
    title = "merged query-key"
    citation = "the scaled dot product of Vaswani et al. 2017, eq. 1, with the matrices of query and key multiplied out"
    reason = "shows what query and key matrices are together; scores of full rank"
    accepts = frozenset({"none", "embed", "bias"})

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        context_dim: int | None = None,
        value_width: int | None = None,
        positions: PositionEncoding | None = None,
        bias: bool = True,
        key_bias: bool | None = None,
    ):
        super().__init__(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias)
        self.q = matrices(dim, self.context_dim, heads, key_bias=bias if key_bias is None else key_bias)
        self.v = projection(self.context_dim, heads * self.value_width, bias)

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return towards(self.q, x, self.heads)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        return x[:, None], split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        bias = self.positions.bias(qk_positions.q_pos, qk_positions.k_pos)
        return against(query, keys, self.value_width, bias, qk_positions)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        flops = work(n, m, self.dim, self.context_dim, self.heads, self.value_width)
        flops += 2 * m * self.context_dim * self.heads * self.value_width
        return Cost(self.params(), flops, 4 * self.heads * n * m)
