"""Scores that depend on the distance alone: a line over the distances, laid out over the pairs."""

from __future__ import annotations

import torch
from torch import Tensor


def distances_between(q_pos: range, k_pos: range, device: torch.device | None = None) -> Tensor:
    """Every distance key - query that occurs between two stretches, from the least to the greatest: (q + k - 1,)."""
    return torch.arange(k_pos.start - q_pos.stop + 1, k_pos.stop - q_pos.start, device=device)


def spread(line: Tensor, k: int) -> Tensor:
    """A line (h, q + k - 1) over those distances to the pairs (1, h, q, k): one copy, no index to look up."""
    return line.unfold(-1, k, 1).flip(-2)[None]
