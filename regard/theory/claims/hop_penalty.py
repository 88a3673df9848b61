"""Claim about the penalty of structured self-attention: its values, and its cost against a pairwise KL."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from regard.layers.attention_pooling import hop_kl, hop_penalty
from regard.theory.claim import CheckResult, Claim
from regard.theory.claims.check_helpers import randn, softmax_rows
from regard.theory.cost import Trace

TOPIC = "structured self-attention"


def pairwise_kl(rows: Tensor) -> Tensor:
    """Return KL(a_i ‖ a_j) for all pairs of rows, (..., r, n) -> (..., r, r), without a matrix product."""
    log = rows.log()
    return (rows[..., :, None, :] * (log[..., :, None, :] - log[..., None, :, :])).sum(-1)


def check_penalty(seed: int) -> CheckResult:
    """Compute P of identical, uniform, one-hot and softmax rows, and count the operations of P and the pairwise KL."""
    n, r = 12, 4
    eye = torch.eye(n, dtype=torch.float64)

    def penalty(rows: Tensor) -> float:
        return float(hop_penalty(rows[None, None])[0])

    uniform = torch.full((2, n), 1 / n, dtype=torch.float64)
    identical_one_hot = eye[[3, 3]]
    random_rows = softmax_rows(randn(r, n, seed=seed))
    off_diagonal = (random_rows @ random_rows.T)[~torch.eye(r, dtype=torch.bool)]
    by_margin = [penalty(softmax_rows(margin * eye[:r])) for margin in (5.0, 10.0, 20.0, 30.0)]
    too_many_hops = penalty(softmax_rows(50 * randn(n + 1, n, seed=seed + 1)))
    kl_identical, kl_random = (float(hop_kl(rows[None, None])[0]) for rows in (uniform, random_rows))
    operations = count_operations(30, 100)
    figures = {
        "P of distinct one-hot hops": penalty(eye[:r]),
        "P of softmax hops, margin 5, 10, 20, 30": by_margin,
        "off-diagonals of A Aᵀ, smallest and largest": [float(off_diagonal.min()), float(off_diagonal.max())],
        "P of more hops than words": too_many_hops,
        "KL of identical hops": kl_identical,
        "KL of random hops": kl_random,
        "operations, r = 30, n = 100": operations,
        "P over KL, pair by pair": operations["P"] / operations["KL, pair by pair"],
        "P over KL, one product": operations["P"] / operations["KL, one product"],
    }
    return CheckResult(
        figures,
        {
            "0 for distinct one-hot hops": figures["P of distinct one-hot hops"] == 0.0,
            "softmax approaches 0 and never reaches it": all(a > b > 0 for a, b in pairwise(by_margin)),
            "off-diagonals lie strictly between 0 and 1": float(off_diagonal.min()) > 0
            and float(off_diagonal.max()) < 1,
            "not 0 for more hops than words": too_many_hops > 0.1,
            "KL is 0 for identical hops, P is not": abs(kl_identical) < 1e-12 and penalty(uniform) > 0.5,
        },
        {
            "(A Aᵀ)_12 of two identical uniform rows": float(uniform[0] @ uniform[1]),
            "(A Aᵀ)_12 of two identical one-hot rows": float(identical_one_hot[0] @ identical_one_hot[1]),
            "1/n": 1 / n,
        },
    )


def count_operations(r: int, n: int) -> dict[str, int]:
    """Count scalar operations of P and of two ways to compute the KL, for r hops over n words."""
    rows = softmax_rows(randn(r, n, seed=0))
    counts = {}
    for name, compute in (
        ("P", lambda: hop_penalty(rows[None, None])),
        ("KL, pair by pair", lambda: pairwise_kl(rows)),
        ("KL, one product", lambda: hop_kl(rows[None, None])),
    ):
        with Trace() as trace:
            compute()
        counts[name] = trace.flops + trace.other_ops
    return counts


CLAIMS = [
    Claim(
        "penalty",
        TOPIC,
        "exact",
        "The penalty P is 0 only for distinct one-hot hops, which a softmax approaches and never reaches; the overlap "
        "of two hops lies strictly between 0 and 1. P needs fewer operations than a KL computed pair by pair, and "
        "about as many as one computed as a matrix product.",
        "P = ‖A Aᵀ - I‖²_F",
        check_penalty,
        "identical hops give 1",
    ),
]
