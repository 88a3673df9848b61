"""How far heads look: the share of their attention that falls at each distance, and the mean distance.

share(d) = 1/q Σ_i a_{i, i+d}            d < 0: before the word that looks, d > 0: after it
mean     = Σ_d |d| share(d)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Distances:
    """at (D,): distances, -(q-1) .. k-1; share (h, D); mean (h,)."""

    at: Tensor
    share: Tensor
    mean: Tensor


def by_distance(weights: Tensor) -> Distances:
    """Of one example's weights (h, q, k) whose rows and columns stand in one sequence."""
    h, q, k = weights.shape
    place = torch.arange(k)[None] - torch.arange(q)[:, None] + q - 1
    share = torch.zeros(h, q + k - 1, dtype=weights.dtype)
    share.index_add_(1, place.flatten(), weights.flatten(1))
    share = share / q
    at = torch.arange(-(q - 1), k)
    return Distances(at, share, share @ at.abs().to(share.dtype))
