"""Queries, keys and values as three projections, in one matrix where query and memory have the same width: what every
mechanism on the dot product starts from."""

from __future__ import annotations

from abc import ABC

from torch import Tensor

from regard.attention.mechanisms.mechanism import Mechanism, PackedLinear, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive


class QKV(Mechanism, ABC):
    """W_Q x, W_K m and W_V m for each head, queries and keys turned by positions that rotate."""

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
    ):
        super().__init__(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias)
        check_positive(self.name, key_width=key_width)
        self.key_width = key_width or self.value_width
        self.positions.check_width(self.key_width)
        queries, keys, values = heads * self.key_width, heads * self.key_width, heads * self.value_width
        if self.context_dim == dim:
            self.qkv: PackedLinear | None = PackedLinear(dim, (queries, keys, values), bias)
        else:  # a memory of another width cannot share a matrix with the queries
            self.qkv = None
            self.q, self.kv = projection(dim, queries, bias), PackedLinear(self.context_dim, (keys, values), bias)

    @property
    def scale(self) -> float:
        return self.key_width**-0.5

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        q = self.q(x) if self.qkv is None else self.qkv.some(x, 0, 1)[0]
        return self.positions.rotate(split_heads(q, self.heads), position_ids)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        k, v = self.kv.all(x) if self.qkv is None else self.qkv.some(x, 1, 3)
        return self.positions.rotate(split_heads(k, self.heads), position_ids), split_heads(v, self.heads)

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        if self.qkv is None:
            return super().project_qkv(x, position_ids)
        q, k, v = (split_heads(part, self.heads) for part in self.qkv.all(x))
        return self.positions.rotate(q, position_ids), self.positions.rotate(k, position_ids), v

    def projecting(self, n: int, m: int) -> int:
        """FLOPs of the projections."""
        u, v = self.key_width, self.value_width
        return 2 * self.heads * (n * self.dim * u + m * self.context_dim * (u + v))
