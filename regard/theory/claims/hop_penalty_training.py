"""Claim about training with the hop penalty: does it separate hops, and does a KL do as well?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from regard.inspect.hop_overlap import hop_overlap
from regard.layers.attention_pooling import hop_kl, hop_penalty
from regard.models import self_attentive
from regard.theory.claim import CheckResult, Claim, is_above
from regard.theory.claims.check_helpers import difference_interval
from regard.theory.claims.train_small_model import Batch, accuracy, train_model

NUM_WORDS, LENGTH, NUM_HOPS = 12, 20, 4


def two_word_batch(rng: np.random.Generator, size: int) -> Batch:
    """Return random words, and which of words 1 and 2 the text contains: 0 neither, 1 or 2 one of them, 3 both."""
    ids = rng.integers(3, NUM_WORDS + 1, (size, LENGTH))
    for word in (1, 2):
        rows = np.flatnonzero(rng.random(size) < 0.5)
        ids[rows, rng.integers(0, LENGTH, len(rows))] = word
    label = (ids == 1).any(1) + 2 * (ids == 2).any(1)
    return torch.from_numpy(ids), torch.from_numpy(label.astype(np.int64))


def hop_weights(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the attention weights of the hops, (b, 1, hops, n), with gradients."""
    classifier: self_attentive.SelfAttentive = model  # type: ignore[assignment]
    h = classifier.rnn(classifier.embedding(ids), torch.full((len(ids),), ids.shape[1]))
    return classifier.pool(h)[1].weights()


PENALTIES: dict[str, Callable[[nn.Module, Tensor], Tensor] | None] = {
    "none": None,
    "P": lambda model, ids: 0.1 * hop_penalty(hop_weights(model, ids)).mean(),
    "KL": lambda model, ids: -0.1 * hop_kl(hop_weights(model, ids)).clamp(max=5.0).mean(),
}


def relative_overlap(model: nn.Module, ids: Tensor) -> float:
    """Return the overlap of different hops over that of a hop with itself: 1 if all hops are equal."""
    with torch.no_grad():
        overlaps = [hop_overlap(weights[0]) for weights in hop_weights(model, ids)]
    return float(np.mean([o.between_hops for o in overlaps]) / np.mean([o.within_hop for o in overlaps]))


def check_penalty_training(seed: int) -> CheckResult:
    config = self_attentive.SelfAttentiveConfig(
        embed=16, hidden=16, attention=16, hops=NUM_HOPS, penalty=0.0, features=32, dropout=0.0
    )
    overlaps: dict[str, list[float]] = {name: [] for name in PENALTIES}
    accuracies: dict[str, list[float]] = {name: [] for name in PENALTIES}
    for s in range(seed, seed + 3):
        for name, penalty in PENALTIES.items():
            rng = np.random.default_rng(s)
            model = train_model(
                lambda: self_attentive.SelfAttentive(NUM_WORDS + 1, 4, config),
                lambda _, rng=rng: two_word_batch(rng, 64),
                steps=500,
                seed=s,
                lr=5e-3,
                penalty=penalty,
            )
            test = two_word_batch(np.random.default_rng(5000 + s), 400)
            overlaps[name].append(relative_overlap(model, test[0]))
            accuracies[name].append(accuracy(model, *test))
    reduction, kl_reduction = (difference_interval(overlaps["none"], overlaps[name]) for name in ("P", "KL"))
    return CheckResult(
        {
            "relative overlap of hops, by seed": overlaps,
            "accuracy, by seed": accuracies,
            "reduction of the overlap by P": list(reduction),
            "reduction of the overlap by KL": list(kl_reduction),
        },
        {
            "the task is learned with and without the penalty": min(accuracies["none"] + accuracies["P"]) > 0.9,
            "the penalty lowers the overlap of hops": is_above(reduction[1], reduction[2], 0.0),
        },
    )


CLAIMS = [
    Claim(
        "penalty-trained",
        "structured self-attention",
        "trained",
        "In training the penalty lowers the overlap of the hops; a pairwise KL in its place is also measured.",
        "loss + 0.1 ‖A Aᵀ - I‖²_F",
        check_penalty_training,
    ),
]
