"""Scaled dot-product attention (Vaswani et al. 2017, eq. 1).

    score = (W_Q x)·(W_K m) / sqrt(d_k)

The reason it is everywhere: scores of all pairs are one matrix product, and kernels fuse them with the softmax.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.cost import Cost
from regard.mechanisms.base import Mechanism, Packed, heads_apart
from regard.places import At, Places
from regard.positions.base import Positions
from regard.seam import Dot, Scores


class DotMechanism(Mechanism):
    name = "dot"
    title = "scaled dot product"
    citation = "Vaswani et al. 2017, Attention Is All You Need, eq. 1"
    reason = "all pairs in one matrix product; the fastest that compares every query with every key"
    accepts = frozenset({"none", "embed", "rotate", "bias"})

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        memory_dim: int | None = None,
        value_width: int | None = None,
        positions: Positions | None = None,
        bias: bool = True,
        key_width: int | None = None,
    ):
        super().__init__(dim, heads, memory_dim=memory_dim, value_width=value_width, positions=positions, bias=bias)
        self.key_width = key_width or self.value_width
        queries, keys, values = heads * self.key_width, heads * self.key_width, heads * self.value_width
        if self.memory_dim == dim:
            self.qkv: Packed | None = Packed(dim, (queries, keys, values), bias)
        else:  # a memory of another width cannot share a matrix with the queries
            self.qkv = None
            self.q, self.kv = nn.Linear(dim, queries, bias), Packed(self.memory_dim, (keys, values), bias)

    def query(self, x: Tensor, at: At) -> Tensor:
        q = self.q(x) if self.qkv is None else self.qkv.some(x, 0, 1)[0]
        return self.positions.rotate(heads_apart(q, self.heads), at)

    def remember(self, x: Tensor, at: At) -> tuple[Tensor, Tensor]:
        k, v = self.kv.all(x) if self.qkv is None else self.qkv.some(x, 1, 3)
        return self.positions.rotate(heads_apart(k, self.heads), at), heads_apart(v, self.heads)

    def both(self, x: Tensor, at: At) -> tuple[Tensor, Tensor, Tensor]:
        if self.qkv is None:
            return super().both(x, at)
        q, k, v = (heads_apart(part, self.heads) for part in self.qkv.all(x))
        return self.positions.rotate(q, at), self.positions.rotate(k, at), v

    def score(self, query: Tensor, keys: Tensor, places: Places) -> Scores:
        bias = self.positions.bias(places.q_at, places.k_at)
        return Dot(query, keys, places, scale=self.key_width**-0.5, bias=bias)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        u, v, h = self.key_width, self.value_width, self.heads
        project = 2 * h * (n * self.dim * u + m * self.memory_dim * (u + v))
        compare = 2 * h * n * m * (u + v)
        return Cost(self.params(), project + compare, 4 * h * n * m)
