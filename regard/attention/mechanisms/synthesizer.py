"""Base class of the Synthesizers (Tay et al. 2020): scores that depend on key positions instead of keys."""

from __future__ import annotations

from abc import ABC
from typing import Any

from torch import Tensor, nn

from regard.attention.lookup import check_range
from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive


class Synthesizer(Mechanism, ABC):
    """Scores without keys, up to a maximal length. A subclass creates the value projection `v`.

    Args:
        dim: Width of the input.
        heads: Number of heads.
        length: Maximal length; positions are 0 to length - 1.
        **options: Options of `Mechanism`.
    """

    supports_cross_attention = False
    order_sensitive = True

    v: nn.Linear

    def __init__(self, dim: int, heads: int, *, length: int = 512, **options: Any):
        super().__init__(dim, heads, **options)
        check_positive(self.name, length=length)
        self.length = length

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        check_range(position_ids, self.length, self.name)
        return x.new_empty(x.shape[0], self.heads, x.shape[1], 0)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        check_range(position_ids, self.length, self.name)
        return x.new_empty(x.shape[0], self.heads, x.shape[1], 0), split_heads(self.v(x), self.heads)

    def projection_flops(self, n: int, m: int) -> int:
        """FLOPs of the value projection."""
        return 2 * self.heads * m * self.context_dim * self.value_width
