"""Formal languages learnt from short texts and asked at longer ones: attention beside an LSTM. Every language, with
more layers, heads and positions: `python -m regard.theory.claims.length_sweep`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.models import bilstm, transformer_classifier
from regard.theory.claim import Claim, CheckResult, Plot, is_above, is_below
from regard.theory.claims import formal_languages
from regard.theory.claims.check_helpers import interval
from regard.theory.claims.train_small_model import Batch, accuracy, fit

TOPIC = "limits"
TRAINED = 16
ASKED = (16, 32, 64)


def attention(layers: int = 2, heads: int = 2, positions: str = "sinusoidal", dim: int = 32) -> Callable[[], nn.Module]:
    config = transformer_classifier.TransformerClassifierConfig(
        dim=dim, layers=layers, heads=heads, hidden=2 * dim, positions=positions, dropout=0.0
    )
    return lambda: config.build(6, 2)


def lstm(hidden: int = 32) -> Callable[[], nn.Module]:
    config = bilstm.BiLSTMConfig(embed=16, hidden=hidden, pool="last", dropout=0.0)
    return lambda: config.build(6, 2)


@lru_cache(maxsize=4)
def batches(name: str, seed: int, size: int = 64) -> Callable[[int], Batch]:
    """Step by step texts of one length, any of those up to TRAINED; half the steps of at most half of it, which is
    what lets a recurrent net begin. They are kept, since several models learn from the same."""
    known = formal_languages.lengths(name, TRAINED)
    short = [n for n in known if n <= TRAINED // 2]
    draw, made = np.random.default_rng(seed), list[Batch]()

    def batch(step: int) -> Batch:
        while len(made) <= step:
            length = int(draw.choice(short if draw.random() < 0.5 else known))
            ids, labels = formal_languages.generate(name, length, size, seed=1_000_003 * seed + len(made))
            made.append((torch.from_numpy(ids), torch.from_numpy(labels)))
        return made[step]

    return batch


def asked(name: str, model: nn.Module, at: Sequence[int], count: int = 400) -> list[float]:
    """Accuracy at the nearest lengths that the language has."""
    found = []
    for n in at:
        ids, labels = formal_languages.generate(name, formal_languages.lengths(name, n)[-1], count, seed=987_654)
        found.append(accuracy(model, torch.from_numpy(ids), torch.from_numpy(labels)))
    return found


def curves(
    name: str,
    build: Callable[[], nn.Module],
    *,
    seeds: Sequence[int],
    steps: int,
    at: Sequence[int] = ASKED,
    lr: float = 3e-3,
) -> dict[str, Any]:
    """Accuracy at each length, trained from each of these seeds."""
    return over_seeds([asked(name, fit(build, batches(name, s), steps=steps, seed=s, lr=lr), at) for s in seeds], at)


def over_seeds(rows: Sequence[Sequence[float]], at: Sequence[int]) -> dict[str, Any]:
    """Mean accuracy at each length with 95 % intervals over seeds, one row for each."""
    means = [interval([row[i] for row in rows]) for i in range(len(at))]
    return {
        "x": list(at),
        "y": [m for m, _, _ in means],
        "low": [max(0.0, low) for _, low, _ in means],
        "high": [min(1.0, high) for _, _, high in means],
        "each": [list(row) for row in rows],
    }


def parity(seed: int) -> CheckResult:
    """The same texts for both: bits of up to 16, then of 64."""
    seeds = [seed + i for i in range(3)]
    ours = curves("parity", attention(), seeds=seeds, steps=800)
    theirs = curves("parity", lstm(), seeds=seeds, steps=1500, lr=5e-3)
    far, near = [{key: c[key][i] for key in ("y", "low", "high")} for c in (ours, theirs) for i in (-1,)]
    figures = {
        "length": list(ASKED),
        "attention": ours["y"],
        "LSTM": theirs["y"],
        "each seed": [ours["each"], theirs["each"]],
    }
    return CheckResult(
        figures,
        {
            "attention is near guessing at four times the length": is_below(far["low"], far["high"], 0.65),
            "an LSTM still knows": is_above(near["low"], near["high"], 0.8),
        },
        {"two layers set by hand are right at this length; trained ones": far["y"]},
        (
            Plot(
                "PARITY, trained on up to 16 bits",
                "length",
                "accuracy",
                [{"name": "attention", **drawn(ours)}, {"name": "LSTM", **drawn(theirs)}],
                "x",
            ),
        ),
    )


def drawn(curve: dict[str, Any]) -> dict[str, Any]:
    return {key: curve[key] for key in ("x", "y", "low", "high")}


CLAIMS = [
    Claim(
        "parity-trained",
        TOPIC,
        "trained",
        "Training does not find the construction that does PARITY at all lengths: attention trained on up to 16 bits "
        "guesses at 64, where an LSTM still knows.",
        "accuracy(n) for n beyond training",
        parity,
        "attention cannot, or: attention can, so it learns to",
    ),
]
