"""The penalty of structured self-attention in training: does it keep hops apart, and does a KL do as well?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from regard.inspect.hop_overlap import hop_overlap
from regard.layers.attention_pooling import hop_kl, hop_penalty
from regard.models import self_attentive
from regard.theory.claim import Claim, CheckResult, is_above
from regard.theory.claims.check_helpers import interval
from regard.theory.claims.train_small_model import Batch, accuracy, fit

WORDS, LENGTH, HOPS = 12, 20, 4


def texts(draw: np.random.Generator, size: int) -> Batch:
    """Words by chance; the class says which of the first two words are in the text: neither, one, the other, both."""
    ids = draw.integers(3, WORDS + 1, (size, LENGTH))
    for word in (1, 2):
        rows = np.flatnonzero(draw.random(size) < 0.5)
        ids[rows, draw.integers(0, LENGTH, len(rows))] = word
    label = (ids == 1).any(1) + 2 * (ids == 2).any(1)
    return torch.from_numpy(ids), torch.from_numpy(label.astype(np.int64))


def weights(model: nn.Module, ids: Tensor) -> Tensor:
    """Of the hops, (b, 1, hops, n), with their gradient."""
    made: self_attentive.SelfAttentive = model  # type: ignore[assignment]
    h = made.read(made.embedding(ids), torch.full((len(ids),), ids.shape[1]))
    return made.pool(h)[1].weights()


TERMS: dict[str, Callable[[nn.Module, Tensor], Tensor] | None] = {
    "none": None,
    "P": lambda model, ids: 0.1 * hop_penalty(weights(model, ids)).mean(),
    "KL": lambda model, ids: -0.1 * hop_kl(weights(model, ids)).clamp(max=5.0).mean(),
}


def alike(model: nn.Module, ids: Tensor) -> float:
    """What different hops share over what each shares with itself: 1 where all are alike."""
    with torch.no_grad():
        found = [hop_overlap(one[0]) for one in weights(model, ids)]
    return float(np.mean([o.between_hops for o in found]) / np.mean([o.within_hop for o in found]))


def penalised(seed: int) -> CheckResult:
    config = self_attentive.SelfAttentiveConfig(embed=16, hidden=16, attention=16, hops=HOPS, penalty=0.0, features=32, dropout=0.0)
    shared: dict[str, list[float]] = {name: [] for name in TERMS}
    right: dict[str, list[float]] = {name: [] for name in TERMS}
    for s in range(seed, seed + 3):
        for name, term in TERMS.items():
            draw = np.random.default_rng(s)
            made = fit(
                lambda: config.build(WORDS + 1, 4),
                lambda _, d=draw: texts(d, 64),
                steps=500,
                seed=s,
                lr=5e-3,
                more=term,
            )
            asked = texts(np.random.default_rng(5000 + s), 400)
            shared[name].append(alike(made, asked[0]))
            right[name].append(accuracy(made, *asked))
    gain = interval([a - b for a, b in zip(shared["none"], shared["P"], strict=True)])
    by_kl = interval([a - b for a, b in zip(shared["none"], shared["KL"], strict=True)])
    return CheckResult(
        {
            "how alike hops are, by seed": shared,
            "accuracy, by seed": right,
            "less alike by P": list(gain),
            "less alike by KL": list(by_kl),
        },
        {
            "what is asked is learnt, with and without": min(min(right["none"]), min(right["P"])) > 0.9,
            "the penalty lowers the overlap of hops": is_above(gain[1], gain[2], 0.0),
        },
    )


CLAIMS = [
    Claim(
        "penalty-trained",
        "structured self-attention",
        "trained",
        "In training the penalty lowers the overlap of the hops; how a pairwise KL in its place does is beside it.",
        "loss + 0.1 ‖A Aᵀ - I‖²_F",
        penalised,
    ),
]
