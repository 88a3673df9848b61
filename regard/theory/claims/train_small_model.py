"""Train small models for the claims that need training. The same seed gives the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.theory.claims.check_helpers import mean_interval, seeded
from regard.training import environment

Batch = tuple[Tensor, Tensor]
LogitsFn = Callable[[nn.Module, Tensor], Tensor]
IGNORE_INDEX = -100
"""Targets with this value have no loss and do not count in the accuracy."""


def classifier_logits(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the logits of a text classifier on texts without padding, (b, classes)."""
    sentences = torch.zeros_like(ids)
    return model(ids, torch.ones_like(ids, dtype=torch.bool), sentences).logits


def language_logits(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the logits of a language model, (b, n, vocab_size)."""
    output: Any = model(ids)
    return output[0] if isinstance(output, tuple) else output


def train_model(
    build: Callable[[], nn.Module],
    get_batch: Callable[[int], Batch],
    *,
    steps: int,
    seed: int,
    lr: float = 2e-3,
    logits: LogitsFn = classifier_logits,
    model: nn.Module | None = None,
    penalty: Callable[[nn.Module, Tensor], Tensor] | None = None,
    warmup: int = 50,
) -> nn.Module:
    """Train a model and return it in evaluation mode.

    Args:
        build: Builds the model, unless `model` is given.
        get_batch: Maps a step to ids and targets; targets of IGNORE_INDEX are ignored.
        penalty: A term that is added to the loss, computed from the model and the ids.
    """
    with seeded(seed), environment.process_environment():
        model = model or build()
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, fused=True)
        for step in range(steps):
            rise = min(1.0, (step + 1) / warmup)
            fall = max(0.05, 1 - step / steps)
            for group in optimizer.param_groups:
                group["lr"] = lr * rise * fall
            ids, targets = get_batch(step)
            loss = F.cross_entropy(logits(model, ids).flatten(0, -2), targets.flatten(), ignore_index=IGNORE_INDEX)
            if penalty is not None:
                loss = loss + penalty(model, ids)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, ids: Tensor, targets: Tensor, logits: LogitsFn = classifier_logits) -> float:
    """Return the fraction of targets that are predicted, without those of IGNORE_INDEX."""
    num_correct = num_targets = 0
    for id_rows, target_rows in zip(ids.split(256), targets.split(256), strict=True):
        predictions, is_target = logits(model, id_rows).argmax(-1), target_rows != IGNORE_INDEX
        num_targets += int(is_target.sum())
        num_correct += int(((predictions == target_rows) & is_target).sum())
    return num_correct / max(1, num_targets)


def accuracy_curve(name: str, rows: Sequence[Sequence[float]], lengths: Sequence[int]) -> dict[str, Any]:
    """Return a curve of the mean accuracy at each length, with 95 % intervals over seeds.

    Args:
        rows: The accuracy at each length, one row per seed.
    """
    intervals = [mean_interval([row[i] for row in rows]) for i in range(len(lengths))]
    return {
        "name": name,
        "x": list(lengths),
        "y": [mean for mean, _, _ in intervals],
        "low": [max(0.0, low) for _, low, _ in intervals],
        "high": [min(1.0, high) for _, _, high in intervals],
    }
