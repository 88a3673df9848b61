"""Queries, keys and values as three projections, in one matrix where query and memory have the same width: what every
mechanism on the dot product starts from."""

from __future__ import annotations

from abc import ABC

from torch import Tensor

from regard.attention.mechanisms.mechanism import Mechanism, Packed, heads_apart
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import Positions
from regard.attention.token_positions import At
from regard.config.validation import positive


class QKV(Mechanism, ABC):
    """W_Q x, W_K m and W_V m for each head, queries and keys turned by positions that rotate."""

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
        positive(self.name, key_width=key_width)
        self.key_width = key_width or self.value_width
        self.positions.check_width(self.key_width)
        queries, keys, values = heads * self.key_width, heads * self.key_width, heads * self.value_width
        if self.memory_dim == dim:
            self.qkv: Packed | None = Packed(dim, (queries, keys, values), bias)
        else:  # a memory of another width cannot share a matrix with the queries
            self.qkv = None
            self.q, self.kv = projection(dim, queries, bias), Packed(self.memory_dim, (keys, values), bias)

    @property
    def scale(self) -> float:
        return self.key_width**-0.5

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

    def projecting(self, n: int, m: int) -> int:
        """FLOPs of the projections."""
        u, v = self.key_width, self.value_width
        return 2 * self.heads * (n * self.dim * u + m * self.memory_dim * (u + v))
