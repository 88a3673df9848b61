"""Sentences encoded apart: a HAN reads a list without knowing what was asked, a context-aware one knows.

Q thing | colour thing colour thing ...        the class is the colour of the thing asked for
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from regard.models import context_han, han
from regard.theory.claim import Claim, CheckResult, is_above
from regard.theory.claims.check_helpers import interval
from regard.theory.claims.train_small_model import accuracy, fit

THINGS, COLOURS = 6, 3
Q, FIRST_THING, FIRST_COLOUR = 1, 2, 2 + THINGS
VOCAB = 2 + THINGS + COLOURS


def texts(draw: np.random.Generator, size: int, listed: int, even: bool) -> tuple[Tensor, Tensor]:
    """ids (b, 2 + 2 · listed), the first two the question; even: every colour equally often in the list."""
    things = np.stack([draw.permutation(THINGS)[:listed] for _ in range(size)])
    if even:
        colours = np.stack([draw.permutation(np.arange(listed) % COLOURS) for _ in range(size)])
    else:
        colours = draw.integers(0, COLOURS, (size, listed))
    which = draw.integers(0, listed, size)
    rows = np.arange(size)
    ids = np.empty((size, 2 + 2 * listed), np.int64)
    ids[:, 0], ids[:, 1] = Q, FIRST_THING + things[rows, which]
    ids[:, 2::2], ids[:, 3::2] = FIRST_COLOUR + colours, FIRST_THING + things
    return torch.from_numpy(ids), torch.from_numpy(colours[rows, which].astype(np.int64))


def asked(model: nn.Module, ids: Tensor) -> Tensor:
    sentences = (torch.arange(ids.shape[1]) >= 2).long().expand_as(ids)
    return model(ids, torch.ones_like(ids, dtype=torch.bool), sentences).logits


def isolated(seed: int, steps: int = 600) -> CheckResult:
    size = {"embed": 16, "hidden": 12, "attention": 24, "dropout": 0.0, "spread": 1.0}
    builds: dict[str, Callable[[], nn.Module]] = {
        "HAN": lambda: han.HANConfig(**size).build(VOCAB, COLOURS),  # type: ignore[arg-type]
        "context-aware HAN": lambda: context_han.ContextHANConfig(**size).build(VOCAB, COLOURS),  # type: ignore[arg-type]
    }
    reached: dict[str, list[float]] = {name: [] for name in builds}
    for s in range(seed, seed + 4):
        for name, build in builds.items():
            draw = np.random.default_rng(s)
            made = fit(
                build,
                lambda _, d=draw: texts(d, 64, int(d.integers(1, THINGS + 1)), False),
                steps=steps,
                seed=s,
                lr=5e-3,
                logits=asked,
            )
            reached[name].append(
                accuracy(made, *texts(np.random.default_rng(7000 + s), 500, THINGS, True), logits=asked)
            )
    _, low, high = interval([a - b for a, b in zip(reached["context-aware HAN"], reached["HAN"], strict=True)])
    return CheckResult(
        {"accuracy, by seed": reached, "chance": 1 / COLOURS, "difference": [low, high]},
        {"context helps where text needs it": is_above(low, high, 0.0)},
    )


CLAIMS = [
    Claim(
        "han-isolation",
        "hierarchical attention",
        "trained",
        "A hierarchical attention network encodes sentences without knowing one another; a context-aware one passes "
        "context on, and does better on texts that need it.",
        "s_i = pool(h_i) against s_i = pool(h_i | context)",
        isolated,
    ),
]
