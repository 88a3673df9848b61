"""Biases that depend on the distance only: a vector over distances, expanded to a Toeplitz matrix over pairs."""

from __future__ import annotations

import torch
from torch import Tensor


def distances_between(q_pos: range, k_pos: range, device: torch.device | None = None) -> Tensor:
    """Every distance key - query between two ranges, from the smallest to the largest: (q + k - 1,)."""
    return torch.arange(k_pos.start - q_pos.stop + 1, k_pos.stop - q_pos.start, device=device)


def expand_to_pairs(by_distance: Tensor, k: int) -> Tensor:
    """Numbers over these distances, (h, q + k - 1), to pairs (1, h, q, k), without an index tensor."""
    return by_distance.unfold(-1, k, 1).flip(-2)[None]
