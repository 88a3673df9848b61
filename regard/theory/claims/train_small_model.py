"""Small trainings for statements that need one: a model, batches by step, AdamW; the same seed, the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.theory.claims.check_helpers import seeded
from regard.training import environment

Batch = tuple[Tensor, Tensor]
Logits = Callable[[nn.Module, Tensor], Tensor]


def classified(model: nn.Module, ids: Tensor) -> Tensor:
    """Logits of a classifier on texts without padding."""
    sentences = torch.zeros_like(ids)
    return model(ids, torch.ones_like(ids, dtype=torch.bool), sentences).logits


def written(model: nn.Module, ids: Tensor) -> Tensor:
    """Logits of a language model, (b, n, vocab)."""
    out: Any = model(ids)
    return out[0] if isinstance(out, tuple) else out


def fit(
    build: Callable[[], nn.Module],
    batch: Callable[[int], Batch],
    *,
    steps: int,
    seed: int,
    lr: float = 2e-3,
    logits: Logits = classified,
    model: nn.Module | None = None,
    more: Callable[[nn.Module, Tensor], Tensor] | None = None,
    warm: int = 50,
) -> nn.Module:
    """Train `build()` (or go on with a model) on batch(step): ids and targets; targets of -100 are not asked for.
    `more` is a further term of the loss."""
    with seeded(seed), environment.prepared():
        made = model or build()
        made.train()
        optimizer = torch.optim.AdamW(made.parameters(), lr=lr, weight_decay=0.01, fused=True)
        for step in range(steps):
            rise = min(1.0, (step + 1) / warm)
            fall = max(0.05, 1 - step / steps)
            for group in optimizer.param_groups:
                group["lr"] = lr * rise * fall
            ids, targets = batch(step)
            loss = F.cross_entropy(logits(made, ids).flatten(0, -2), targets.flatten(), ignore_index=-100)
            if more is not None:
                loss = loss + more(made, ids)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(made.parameters(), 1.0)
            optimizer.step()
    return made.eval()


@torch.no_grad()
def accuracy(model: nn.Module, ids: Tensor, targets: Tensor, logits: Logits = classified) -> float:
    """The share of targets (not -100) that are named."""
    right = asked = 0
    for rows, truth in zip(ids.split(256), targets.split(256), strict=True):
        said = logits(model, rows).argmax(-1)
        asked += int((truth != -100).sum())
        right += int(((said == truth) & (truth != -100)).sum())
    return right / max(1, asked)
