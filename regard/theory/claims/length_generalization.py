"""Claim about length generalization: PARITY learned from short texts and tested on longer ones, against an LSTM.

All formal languages, with more layers, heads and positions: `python -m regard.theory.claims.length_sweep`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import nn

from regard.models import bilstm, transformer_classifier
from regard.theory.claim import CheckResult, Claim, Plot, is_above, is_below
from regard.theory.claims import formal_languages
from regard.theory.claims.train_small_model import Batch, accuracy, accuracy_curve, train_model

TOPIC = "limits"
TRAIN_LENGTH = 16
TEST_LENGTHS = (16, 32, 64)
TEST_SEED = 987_654


def attention_builder(
    layers: int = 2, heads: int = 2, positions: str = "sinusoidal", dim: int = 32
) -> Callable[[], nn.Module]:
    return lambda: transformer_classifier.TransformerClassifier(
        6, 2, dim=dim, layers=layers, heads=heads, hidden=2 * dim, positions=positions, dropout=0.0
    )


def lstm_builder(hidden: int = 32) -> Callable[[], nn.Module]:
    return lambda: bilstm.BiLSTM(6, 2, embed=16, hidden=hidden, pool="last", dropout=0.0)


@lru_cache(maxsize=4)
def language_batches(name: str, seed: int, size: int = 64) -> Callable[[int], Batch]:
    """Return batches by step, each of texts of one length up to TRAIN_LENGTH.

    Half of the steps have at most half that length; without them recurrent models do not start to learn. The batches
    are cached, since several models train on the same ones.
    """
    lengths = formal_languages.valid_lengths(name, TRAIN_LENGTH)
    short_lengths = [n for n in lengths if n <= TRAIN_LENGTH // 2]
    rng, batches = np.random.default_rng(seed), list[Batch]()

    def get_batch(step: int) -> Batch:
        while len(batches) <= step:
            length = int(rng.choice(short_lengths if rng.random() < 0.5 else lengths))
            ids, labels = formal_languages.generate(name, length, size, seed=1_000_003 * seed + len(batches))
            batches.append((torch.from_numpy(ids), torch.from_numpy(labels)))
        return batches[step]

    return get_batch


def accuracy_by_length(name: str, model: nn.Module, lengths: Sequence[int], count: int = 400) -> list[float]:
    """Return the accuracy at each length, or at the next shorter length that the language has."""
    accuracies = []
    for n in lengths:
        length = formal_languages.valid_lengths(name, n)[-1]
        ids, labels = formal_languages.generate(name, length, count, seed=TEST_SEED)
        accuracies.append(accuracy(model, torch.from_numpy(ids), torch.from_numpy(labels)))
    return accuracies


def check_parity_training(seed: int) -> CheckResult:
    """Train attention and an LSTM on the same texts of up to 16 bits, and test them on up to 64."""
    rows = {}
    for name, build, steps, lr in (("attention", attention_builder(), 800, 3e-3), ("LSTM", lstm_builder(), 1500, 5e-3)):
        rows[name] = [
            accuracy_by_length(
                "parity", train_model(build, language_batches("parity", s), steps=steps, seed=s, lr=lr), TEST_LENGTHS
            )
            for s in range(seed, seed + 3)
        ]
    attention, lstm = (accuracy_curve(name, rows[name], TEST_LENGTHS) for name in rows)
    return CheckResult(
        {
            "length": list(TEST_LENGTHS),
            "attention": attention["y"],
            "LSTM": lstm["y"],
            "accuracy by seed": list(rows.values()),
        },
        {
            "attention is near chance at four times the length": is_below(
                attention["low"][-1], attention["high"][-1], 0.65
            ),
            "an LSTM generalizes": is_above(lstm["low"][-1], lstm["high"][-1], 0.8),
        },
        {"two layers set by hand are correct at this length; accuracy of trained ones": attention["y"][-1]},
        (Plot("PARITY, trained on up to 16 bits", "length", "accuracy", [attention, lstm], "x"),),
    )


CLAIMS = [
    Claim(
        "parity-trained",
        TOPIC,
        "trained",
        "Training does not find the construction that computes PARITY at all lengths: attention trained on up to 16 "
        "bits is at chance at 64, where an LSTM is still correct.",
        "accuracy(n) for n beyond training",
        check_parity_training,
        "attention cannot compute PARITY; or: since it can, it learns to",
    ),
]
