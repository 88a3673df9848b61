"""How far heads attend: the fraction of their attention at each distance, and the mean distance.

fraction(d) = 1/q Σ_i a_{i, i+d}         d < 0: keys before the query, d > 0: keys after it
mean        = Σ_d |d| fraction(d)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AttentionDistance:
    """distances (D,): -(q-1) .. k-1; fraction (h, D): attention at each distance; mean (h,): mean absolute distance."""

    distances: Tensor
    fraction: Tensor
    mean: Tensor


def attention_by_distance(weights: Tensor) -> AttentionDistance:
    """Sum the weights (h, q, k) of one example by distance; queries and keys are positions of the same sequence."""
    h, q, k = weights.shape
    index = torch.arange(k)[None] - torch.arange(q)[:, None] + q - 1
    fraction = torch.zeros(h, q + k - 1, dtype=weights.dtype)
    fraction.index_add_(1, index.flatten(), weights.flatten(1))
    fraction = fraction / q
    distances = torch.arange(-(q - 1), k)
    return AttentionDistance(distances, fraction, fraction @ distances.abs().to(fraction.dtype))
