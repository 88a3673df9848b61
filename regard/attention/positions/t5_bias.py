"""T5's relative bias (Raffel et al. 2020, section 2.1): one trained number for each head and bucket of distance.

    score += B[bucket(j - i), h]

Near distances have a bucket each; further ones share buckets that grow logarithmically, and from max_distance on all
are one. With bidirectional=False (T5's decoder) all later places share bucket 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.toeplitz_bias import distances_between, spread
from regard.attention.token_positions import PositionIds, distances
from regard.errors import UserError


def bucket(distance: Tensor, bidirectional: bool = True, buckets: int = 32, max_distance: int = 128) -> Tensor:
    """The bucket of key - query, as T5 counts them (in float32, so that the borders fall where T5's do)."""
    first = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        first = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = -distance.clamp(max=0)
    exact = buckets // 2
    far = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (buckets - exact)
    far = (exact + far.long()).clamp(max=buckets - 1)
    return first + torch.where(distance < exact, distance, far)


class T5Bias(PositionEncoding):
    name, title, kind = "t5", "T5 relative bias (Raffel 2020)", "bias"
    by_distance = True

    buckets_of: Tensor

    def __init__(self, dim: int, heads: int, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True):
        super().__init__(dim, heads)
        least, exact = (4, buckets // 4) if bidirectional else (2, buckets // 2)
        if buckets < least or max_distance <= exact:
            raise UserError(
                f"T5 positions want at least {least} buckets and a max_distance beyond the {exact} nearest places, "
                f"which have a bucket each; given buckets={buckets}, max_distance={max_distance}"
            )
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.randn(buckets, heads) * dim**-0.5)
        every = torch.arange(-max_distance, max_distance + 1)  # beyond these the bucket no longer changes
        self.register_buffer("buckets_of", bucket(every, bidirectional, buckets, max_distance), persistent=False)

    def bias(self, q_pos: PositionIds, k_pos: PositionIds) -> Tensor:
        if isinstance(q_pos, range) and isinstance(k_pos, range):
            return spread(self._at(distances_between(q_pos, k_pos, self.table.device)), len(k_pos))
        away = self._at(distances(q_pos, k_pos, self.table.device))  # (h, q, k) or (h, b, q, k)
        return away[None] if away.dim() == 3 else away.transpose(0, 1)

    def _at(self, distance: Tensor) -> Tensor:
        """The bias at these distances, (h, ...)."""
        clipped = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        index = self.buckets_of[clipped]
        return self.table.t().index_select(1, index.flatten()).unflatten(1, index.shape)
