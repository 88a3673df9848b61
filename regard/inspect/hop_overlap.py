"""Do the hops look at the same words? A Aᵀ says, pair by pair, how much of their attention two hops share.

    (A Aᵀ)_ij = Σ_t a_it a_jt                                   0 where no word is regarded by both
    P = ‖A Aᵀ - I‖²_F                                           the penalty of Lin et al. 2017, eq. 8

Two hops that are alike but spread over many words share little by this measure; so what a hop shares with itself (the
diagonal, 1 where all its attention is on one word) stands beside what it shares with the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Overlap:
    """pairs (r, r); between: the mean of its cells off the diagonal; own: the mean of the diagonal; penalty: P."""

    pairs: Tensor
    between: float
    own: float
    penalty: float


def hop_overlap(weights: Tensor) -> Overlap:
    """weights (r, n): the hops of one example."""
    r = weights.shape[0]
    pairs = weights @ weights.T
    own = pairs.diagonal()
    return Overlap(
        pairs=pairs,
        between=float((pairs.sum() - own.sum()) / max(1, r * (r - 1))),
        own=float(own.mean()),
        penalty=float((pairs - torch.eye(r, dtype=pairs.dtype)).square().sum()),
    )
