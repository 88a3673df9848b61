"""Claim about sentences that are encoded separately: HAN reads a list without the question, context-aware HAN with it.

Q thing | color thing color thing ...        the class is the color of the thing in the question
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.models import context_han, han
from regard.theory.claim import CheckResult, Claim, is_above
from regard.theory.claims.check_helpers import difference_interval
from regard.theory.claims.train_small_model import Batch, accuracy, train_model

NUM_THINGS, NUM_COLORS = 6, 3
QUESTION, FIRST_THING, FIRST_COLOR = 1, 2, 2 + NUM_THINGS
VOCAB_SIZE = 2 + NUM_THINGS + NUM_COLORS


def question_batch(rng: np.random.Generator, size: int, list_length: int, balanced: bool) -> Batch:
    """Return ids (b, 2 + 2 * list_length), the question first, and labels (b,).

    Args:
        balanced: Every color occurs equally often in the list, so that counting colors does not help.
    """
    things = np.stack([rng.permutation(NUM_THINGS)[:list_length] for _ in range(size)])
    if balanced:
        colors = np.stack([rng.permutation(np.arange(list_length) % NUM_COLORS) for _ in range(size)])
    else:
        colors = rng.integers(0, NUM_COLORS, (size, list_length))
    index = rng.integers(0, list_length, size)
    rows = np.arange(size)
    ids = np.empty((size, 2 + 2 * list_length), np.int64)
    ids[:, 0], ids[:, 1] = QUESTION, FIRST_THING + things[rows, index]
    ids[:, 2::2], ids[:, 3::2] = FIRST_COLOR + colors, FIRST_THING + things
    return torch.from_numpy(ids), torch.from_numpy(colors[rows, index].astype(np.int64))


def two_sentence_logits(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the logits with the question as the first sentence and the list as the second."""
    sentences = (torch.arange(ids.shape[1]) >= 2).long().expand_as(ids)
    return model(ids, torch.ones_like(ids, dtype=torch.bool), sentences).logits


def check_isolation(seed: int, steps: int = 600) -> CheckResult:
    sizes: dict[str, Any] = {"embed": 16, "hidden": 12, "attention": 24, "dropout": 0.0, "spread": 1.0}
    builders: dict[str, Callable[[], nn.Module]] = {
        "HAN": lambda: han.HAN(VOCAB_SIZE, NUM_COLORS, **sizes),
        "context-aware HAN": lambda: context_han.ContextHAN(VOCAB_SIZE, NUM_COLORS, **sizes),
    }
    accuracies: dict[str, list[float]] = {name: [] for name in builders}
    for s in range(seed, seed + 4):
        for name, build in builders.items():
            rng = np.random.default_rng(s)
            model = train_model(
                build,
                lambda _, rng=rng: question_batch(rng, 64, int(rng.integers(1, NUM_THINGS + 1)), False),
                steps=steps,
                seed=s,
                lr=5e-3,
                logits=two_sentence_logits,
            )
            test = question_batch(np.random.default_rng(7000 + s), 500, NUM_THINGS, True)
            accuracies[name].append(accuracy(model, *test, logits=two_sentence_logits))
    _, low, high = difference_interval(accuracies["context-aware HAN"], accuracies["HAN"])
    return CheckResult(
        {"accuracy, by seed": accuracies, "chance": 1 / NUM_COLORS, "difference": [low, high]},
        {"context helps on texts that need it": is_above(low, high, 0.0)},
    )


CLAIMS = [
    Claim(
        "han-isolation",
        "hierarchical attention",
        "trained",
        "A hierarchical attention network encodes each sentence independently of the others; a context-aware one "
        "passes context between them, and is better on texts that need it.",
        "s_i = pool(h_i) against s_i = pool(h_i | context)",
        check_isolation,
    ),
]
