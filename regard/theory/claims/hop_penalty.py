"""The penalty of structured self-attention: what it is of which rows, and what it takes beside a pairwise KL."""

from __future__ import annotations

from itertools import pairwise

import torch

from regard.layers.attention_pooling import hop_kl, hop_penalty
from regard.theory.claim import Claim, CheckResult
from regard.theory.claims.check_helpers import noise, weigh
from regard.theory.cost import Trace

TOPIC = "structured self-attention"


def penalty(seed: int) -> CheckResult:
    """P of identical, uniform, one-hot and softmax rows; and the operations that P and the pairwise KL take."""
    n, r = 12, 4
    eye = torch.eye(n, dtype=torch.float64)

    def p(rows: torch.Tensor) -> float:
        return float(hop_penalty(rows[None, None])[0])

    uniform = torch.full((2, n), 1 / n, dtype=torch.float64)
    same_hot = eye[[3, 3]]
    soft = weigh(noise(r, n, seed=seed))
    shared = soft @ soft.T
    off = shared[~torch.eye(r, dtype=torch.bool)]
    sharper = [p(weigh(m * eye[:r])) for m in (5.0, 10.0, 20.0, 30.0)]
    more = p(weigh(50 * noise(n + 1, n, seed=seed + 1)))
    kl_same, kl_soft = (float(hop_kl(rows[None, None])[0]) for rows in (uniform, soft))
    work = _operations(30, 100)
    figures = {
        "P of distinct one-hot hops": p(eye[:r]),
        "P of softmax hops, margin 5, 10, 20, 30": sharper,
        "off-diagonals of A Aᵀ, least and greatest": [float(off.min()), float(off.max())],
        "P of more hops than words": more,
        "KL of identical hops": kl_same,
        "KL of drawn hops": kl_soft,
        "operations, r = 30, n = 100": work,
        "P over KL as written": work["P"] / work["KL, pair by pair"],
        "P over KL as one product": work["P"] / work["KL, one product"],
    }
    return CheckResult(
        figures,
        {
            "0 for distinct one-hot hops": figures["P of distinct one-hot hops"] == 0.0,
            "softmax approaches it and never reaches it": all(a > b > 0 for a, b in pairwise(sharper)),
            "off-diagonals lie strictly between 0 and 1": float(off.min()) > 0 and float(off.max()) < 1,
            "no 0 for more hops than words": more > 0.1,
            "KL is 0 for identical hops, P is not": abs(kl_same) < 1e-12 and p(uniform) > 0.5,
        },
        {
            "(A Aᵀ)_12 of two identical uniform rows": float(uniform[0] @ uniform[1]),
            "of two identical one-hot rows": float(same_hot[0] @ same_hot[1]),
            "1/n": 1 / n,
        },
    )


def _operations(r: int, n: int) -> dict[str, int]:
    """Operations on single numbers: traced."""

    a = weigh(noise(r, n, seed=0))

    def pairs() -> torch.Tensor:
        log = a.log()
        return (a[:, None] * (log[:, None] - log[None])).sum(-1)

    counted = {}
    for name, work in (
        ("P", lambda: hop_penalty(a[None, None])),
        ("KL, pair by pair", pairs),
        ("KL, one product", lambda: hop_kl(a[None, None])),
    ):
        with Trace() as trace:
            work()
        counted[name] = trace.flops + trace.other
    return counted


CLAIMS = [
    Claim(
        "penalty",
        TOPIC,
        "exact",
        "The penalty P is 0 only for distinct one-hot hops, which a softmax approaches and never reaches; what two "
        "hops share lies strictly between 0 and 1. Counted, P takes fewer operations than a pairwise KL "
        "written pair by pair, and about as many as one written as a matrix product.",
        "P = ‖A Aᵀ - I‖²_F",
        penalty,
        "identical hops give 1",
    ),
]
