"""Projections of queries, keys and values, from which all dot-product mechanisms derive."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from torch import Tensor

from regard.attention.mechanisms.mechanism import Mechanism, PackedLinear, split_heads, xavier_linear
from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive


class QKVMechanism(Mechanism, ABC):
    """W_Q x, W_K c and W_V c for each head. Rotary positions rotate queries and keys.

    The three matrices are one if query and context have the same width. A subclass defines `score`.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        key_width: Width of the queries and keys of one head. Default: value_width.
        **options: Options of `Mechanism`.
    """

    packed: ClassVar[bool] = True
    """Whether the three matrices are one where they can be."""

    def __init__(self, dim: int, heads: int, *, key_width: int | None = None, **options: Any):
        super().__init__(dim, heads, **options)
        check_positive(self.name, key_width=key_width)
        self.key_width = self.score_width = key_width or self.value_width
        self.positions.check_key_width(self.key_width)
        keys, values = heads * self.key_width, heads * self.value_width
        if self.packed and self.context_dim == dim:
            self.qkv: PackedLinear | None = PackedLinear(dim, (keys, keys, values), self.has_bias)
        else:
            self.qkv = None
            self.q = xavier_linear(dim, keys, self.has_bias)
            self.kv = PackedLinear(self.context_dim, (keys, values), self.has_bias)

    @property
    def scale(self) -> float:
        """1 / sqrt(d_k)"""
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
