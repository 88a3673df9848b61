"""T5's relative bias (Raffel et al. 2020, section 2.1): a trained number for each head and bucket of distances.

    score += B[bucket(j - i), h]

Small distances have a bucket each; larger ones share buckets that grow logarithmically, up to max_distance. With
bidirectional=False (T5's decoder) all later positions share bucket 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.toeplitz_bias import distances_between, expand_to_pairs
from regard.attention.token_positions import PositionIds, distances
from regard.errors import UserError


def distance_bucket(distance: Tensor, bidirectional: bool = True, buckets: int = 32, max_distance: int = 128) -> Tensor:
    """T5's bucket of each distance key - query. Computed in float32, so that the boundaries are those of T5."""
    first = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        first = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = -distance.clamp(max=0)
    exact = buckets // 2
    large = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (buckets - exact)
    large = (exact + large.long()).clamp(max=buckets - 1)
    return first + torch.where(distance < exact, distance, large)


class T5Bias(PositionEncoding):
    """A trained bias for each bucket of distances.

    Args:
        dim: Width of the model.
        heads: Number of heads.
        buckets: Number of buckets.
        max_distance: Distance from which on all share a bucket.
        bidirectional: Whether later positions have separate buckets.
    """

    name, title, kind = "t5", "T5 relative bias (Raffel 2020)", "bias"
    distance_only = True

    bucket_table: Tensor

    def __init__(self, dim: int, heads: int, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True):
        super().__init__(dim, heads)
        min_buckets, exact = (4, buckets // 4) if bidirectional else (2, buckets // 2)
        if buckets < min_buckets or max_distance <= exact:
            raise UserError(
                f"T5 positions need at least {min_buckets} buckets, and a max_distance above the {exact} distances "
                f"that have a bucket each; given buckets={buckets}, max_distance={max_distance}"
            )
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.randn(buckets, heads) * dim**-0.5)
        distance = torch.arange(-max_distance, max_distance + 1)  # the bucket is constant beyond these
        table = distance_bucket(distance, bidirectional, buckets, max_distance)
        self.register_buffer("bucket_table", table, persistent=False)

    def bias(self, q_pos: PositionIds, k_pos: PositionIds) -> Tensor:
        if isinstance(q_pos, range) and isinstance(k_pos, range):
            by_distance = self._bias_at(distances_between(q_pos, k_pos, self.table.device))
            return expand_to_pairs(by_distance, len(k_pos))
        bias = self._bias_at(distances(q_pos, k_pos, self.table.device))  # (h, q, k) or (h, b, q, k)
        return bias[None] if bias.dim() == 3 else bias.transpose(0, 1)

    def _bias_at(self, distance: Tensor) -> Tensor:
        """The bias of these distances, (h, ...)."""
        clipped = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        index = self.bucket_table[clipped]
        return self.table.t().index_select(1, index.flatten()).unflatten(1, index.shape)
