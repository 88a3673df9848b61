"""Do the hops of structured attention attend to the same words? A Aᵀ holds the overlap of every pair of hops.

    (A Aᵀ)_ij = Σ_t a_it a_jt                                   0 where no word is attended to by both
    P = ‖A Aᵀ - I‖²_F                                           the penalty of Lin et al. 2017, eq. 8

Two equal hops that are spread over many words overlap little by this measure. So the overlap of a hop with itself (the
diagonal, 1 where all its attention is on one word) is reported next to the overlap with the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class HopOverlap:
    """matrix (r, r): A Aᵀ; between_hops: mean off the diagonal; within_hop: mean of the diagonal; penalty: P."""

    matrix: Tensor
    between_hops: float
    within_hop: float
    penalty: float


def hop_overlap(weights: Tensor) -> HopOverlap:
    """Overlap of the hops of one example, weights (r, n)."""
    r = weights.shape[0]
    matrix = weights @ weights.T
    diagonal = matrix.diagonal()
    return HopOverlap(
        matrix=matrix,
        between_hops=float((matrix.sum() - diagonal.sum()) / max(1, r * (r - 1))),
        within_hop=float(diagonal.mean()),
        penalty=float((matrix - torch.eye(r, dtype=matrix.dtype)).square().sum()),
    )
