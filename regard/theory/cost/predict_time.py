"""Seconds an epoch and memory on this machine, found by trying some steps of training on texts by chance.

The steps are those of `regard.training`, optimizer, clipping and all, and the loss is the one that the model is trained
on. Memory is what tensors hold at once: weights, gradients and two moments, and what is kept between the passes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.settings import TrainSettings
from regard.theory.cost.classifier_formulas import SENTENCE
from regard.theory.cost.cost_card import SavedActivations, example_inputs, output_tensors
from regard.training import environment
from regard.training.loop import time_training
from regard.training.objective import LossTerm
from regard.training.time_budget import SHARE

SECONDS = 4.0
BATCHES = 20
HIDDEN = 0.15
"""The share of words that a masked model is asked for."""


@dataclass(frozen=True)
class Texts:
    """Arguments of the model, and for how many texts of how many tokens."""

    args: tuple[Tensor, ...]
    tokens: int
    rows: int

    @property
    def counts(self) -> Mapping[str, float]:
        return {"loss": float(self.rows)}


@dataclass
class Probe:
    """A task of the training loop: texts of n tokens by chance, about which there is nothing to be learnt."""

    n: int
    rows: int
    given: nn.Module
    sentence: int = SENTENCE
    monitor: str = "loss"
    mode: Literal["max", "min"] = "min"

    def plan(self, epoch: int) -> list[np.ndarray]:
        return [np.array([i]) for i in range(BATCHES)]

    def batch(self, indices: np.ndarray, epoch: int) -> Texts:
        seed = int(indices[0])
        args = example_inputs(self.given, self.n, batch=self.rows, seed=seed)[0]
        if len(args) == 3:  # words, which are real, and their sentences
            args = *args[:2], random_sentences(self.rows, self.n, self.sentence, seed)
        return Texts(tuple(t.detach() for t in args), self.n * self.rows, self.rows)

    def loss(self, model: nn.Module, batch: Texts) -> Mapping[str, LossTerm]:
        return {"loss": LossTerm(batch.rows * example_loss(model, batch.args))}

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        return {}


def random_sentences(rows: int, n: int, mean: int, seed: int) -> Tensor:
    """The number of each word's sentence, (rows, n); sentences are half as long as the mean to half as long again, so
    that they fall into groups of like length as those of real texts do."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(max(1, mean // 2), mean + mean // 2 + 1, (rows, n))
    return torch.from_numpy(np.stack([np.repeat(np.arange(n), row)[:n] for row in lengths]))


def example_loss(model: nn.Module, args: tuple[Tensor, ...]) -> Tensor:
    """A loss of the shape that training has: of words at every place or at those hidden, or of a class a text."""
    known: Any = getattr(model, "module", model)  # as the loop wraps it
    ids = args[-1] if len(args) == 2 else args[0]
    if ids.is_floating_point():  # a layer, or pictures alone
        return output_tensors(model(*args))[0].square().mean()
    if hasattr(known, "segments") and hasattr(known, "word"):  # masked words
        places = torch.arange(0, ids.numel(), round(1 / HIDDEN))
        words, follows = model(ids, places=places)
        return F.cross_entropy(words, ids.flatten()[places]) + F.cross_entropy(follows, ids[:, 0] % 2)
    if getattr(known, "adaptive", None) is not None:  # which can do without the logits of all words
        return model(ids, targets=ids).mean()
    out = model(*args)
    logits = output_tensors(out)[0]
    if type(known).__name__ == "SpanReader":
        return -logits.gather(2, (ids[:, :2, None] % ids.shape[1])).clamp_min(1e-9).log().mean()
    if logits.dim() == 3:
        wanted = args[-1][:, : logits.shape[1]].flatten() % logits.shape[-1]
        return F.cross_entropy(logits.flatten(0, 1), wanted)
    terms = sum((t.sum() for t in output_tensors(out)[1:]), logits.new_zeros(()))
    each = logits[None] if out.each is None else out.each
    target = ids.sum(1) % logits.shape[-1]
    return torch.stack([F.cross_entropy(one, target) for one in each]).mean() + terms


def predict_time(
    module: nn.Module, n: int, batch: int, tokens: int, *, seconds: float = SECONDS, sentence: int = SENTENCE
) -> dict[str, Any]:
    """For `batch` texts of n tokens a step, in sentences of about so many, and so many tokens an epoch. The module
    itself is left as it was."""
    model = copy.deepcopy(module).train()
    task = Probe(n, batch, model, sentence)
    _see(model, task)
    args = task.batch(np.array([0]), 0).args
    with SavedActivations(model, list(args)) as kept, environment.process_environment():
        example_loss(model, args)
    each, _ = time_training(model, task, TrainSettings(budget=max(seconds, 1e-3) / SHARE), Path(), seed=0)
    size = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return {
        "batch": batch,
        "tokens": tokens,
        "steps": -(-tokens // (batch * n)),
        "seconds_step": each,
        "seconds_epoch": each * tokens / (batch * n),
        "memory": 4 * size + kept.bytes,
        "memory_weights": 4 * size,
        "memory_kept": kept.bytes,
    }


def _see(model: Any, task: Probe) -> None:
    """Show a model that counts n-grams a training part, as training does first."""
    if not hasattr(model, "fit_training_data"):
        return
    ids, mask, number = task.batch(np.array([BATCHES]), 0).args
    model.eval()
    with torch.no_grad():
        classes = model(ids, mask, number).logits.shape[-1]
    labels = np.eye(classes)[np.arange(len(ids)) % classes]
    model.train().fit_training_data(ids.flatten().numpy(), np.arange(0, ids.numel() + 1, ids.shape[1]), labels)
