"""Predict the seconds per epoch and the memory of training on this machine, from a few training steps on random texts.

The steps are those of `regard.training`, with optimizer and gradient clipping, and the loss has the shape of the loss
that the model is trained on. Memory is that of the tensors: weights, gradients, two optimizer moments, and activations.
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
from regard.models.bert import BERT
from regard.models.data_hooks import UsesTrainingData
from regard.models.sentence_groups import SENTENCE_LENGTH
from regard.models.span_reader import SpanReader
from regard.theory.cost.cost_card import SavedActivations, example_inputs, output_tensors
from regard.training import environment
from regard.training.loop import time_training
from regard.training.objective import LossTerm
from regard.training.time_budget import BUDGET_FRACTION

SECONDS = 4.0
NUM_BATCHES = 20
MASKED_FRACTION = 0.15
"""Fraction of tokens that a masked language model predicts."""


@dataclass(frozen=True)
class RandomBatch:
    """Arguments of the model, for `rows` texts with `tokens` tokens in all."""

    args: tuple[Tensor, ...]
    tokens: int
    rows: int

    @property
    def counts(self) -> Mapping[str, float]:
        return {"loss": float(self.rows)}


@dataclass
class RandomTextObjective:
    """An objective of the training loop on random texts.

    Attributes:
        n: Tokens of each text.
        rows: Texts of a batch.
        model: The model whose inputs are generated.
        sentence_length: Average number of tokens of a sentence.
    """

    n: int
    rows: int
    model: nn.Module
    sentence_length: int = SENTENCE_LENGTH
    monitor: str = "loss"
    mode: Literal["max", "min"] = "min"

    def plan(self, epoch: int) -> list[np.ndarray]:
        return [np.array([i]) for i in range(NUM_BATCHES)]

    def batch(self, indices: np.ndarray, epoch: int) -> RandomBatch:
        seed = int(indices[0])
        args = example_inputs(self.model, self.n, batch=self.rows, seed=seed)
        if len(args) == 3:  # ids, mask and sentences of a classifier
            args = *args[:2], random_sentences(self.rows, self.n, self.sentence_length, seed)
        return RandomBatch(tuple(t.detach() for t in args), self.n * self.rows, self.rows)

    def loss(self, model: nn.Module, batch: RandomBatch) -> Mapping[str, LossTerm]:
        return {"loss": LossTerm(batch.rows * example_loss(model, batch.args))}

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        return {}


def random_sentences(rows: int, n: int, mean: int, seed: int) -> Tensor:
    """The number of each token's sentence, (rows, n).

    Lengths are uniform between half and one and a half times the mean, so that sentences form groups of similar length
    as in real texts.
    """
    generator = np.random.default_rng(seed)
    lengths = generator.integers(max(1, mean // 2), mean + mean // 2 + 1, (rows, n))
    return torch.from_numpy(np.stack([np.repeat(np.arange(n), row)[:n] for row in lengths]))


def example_loss(model: nn.Module, args: tuple[Tensor, ...]) -> Tensor:
    """A loss with the shape of the training loss: of every token, of masked tokens, or of one class per text."""
    inner: Any = getattr(model, "module", model)  # the loop may wrap the model
    ids = args[-1] if len(args) == 2 else args[0]
    if ids.is_floating_point():  # a layer, or images alone
        return output_tensors(model(*args))[0].square().mean()
    if isinstance(inner, BERT):
        logits_at = torch.arange(0, ids.numel(), round(1 / MASKED_FRACTION))
        token_logits, sentence_logits = model(ids, logits_at=logits_at)
        token_loss = F.cross_entropy(token_logits, ids.flatten()[logits_at])
        return token_loss + F.cross_entropy(sentence_logits, ids[:, 0] % 2)
    if getattr(inner, "adaptive", None) is not None:  # an adaptive softmax does not compute all logits
        return model(ids, targets=ids).mean()
    output = model(*args)
    logits = output_tensors(output)[0]
    if isinstance(inner, SpanReader):
        return -logits.gather(2, (ids[:, :2, None] % ids.shape[1])).clamp_min(1e-9).log().mean()
    if logits.dim() == 3:
        targets = args[-1][:, : logits.shape[1]].flatten() % logits.shape[-1]
        return F.cross_entropy(logits.flatten(0, 1), targets)
    penalties = sum((t.sum() for t in output_tensors(output)[1:]), logits.new_zeros(()))
    member_logits = logits[None] if output.member_logits is None else output.member_logits
    targets = ids.sum(1) % logits.shape[-1]
    return torch.stack([F.cross_entropy(member, targets) for member in member_logits]).mean() + penalties


def predict_time(
    module: nn.Module,
    n: int,
    batch: int,
    tokens: int,
    *,
    seconds: float = SECONDS,
    sentence_length: int = SENTENCE_LENGTH,
) -> dict[str, Any]:
    """Train a copy of a model for a few seconds and extrapolate to an epoch.

    Args:
        module: A model; it is not changed.
        n: Tokens of each text.
        batch: Texts of a batch.
        tokens: Tokens of an epoch.
        seconds: How long to train.
        sentence_length: Average number of tokens of a sentence.

    Returns:
        Seconds of a step and of an epoch, and bytes of memory.
    """
    model = copy.deepcopy(module).train()
    objective = RandomTextObjective(n, batch, model, sentence_length)
    _fit_training_data(model, objective)
    args = objective.batch(np.array([0]), 0).args
    with SavedActivations(model, list(args)) as activations, environment.process_environment():
        example_loss(model, args)
    step_seconds, _ = time_training(
        model, objective, TrainSettings(budget=max(seconds, 1e-3) / BUDGET_FRACTION), Path(), seed=0
    )
    weight_bytes = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return {
        "batch": batch,
        "tokens": tokens,
        "steps": -(-tokens // (batch * n)),
        "seconds_step": step_seconds,
        "seconds_epoch": step_seconds * tokens / (batch * n),
        "memory": 4 * weight_bytes + activations.bytes,
        "memory_weights": 4 * weight_bytes,
        "memory_kept": activations.bytes,
    }


def _fit_training_data(model: nn.Module, objective: RandomTextObjective) -> None:
    """Let a model that counts n-grams count them, as before training."""
    if not isinstance(model, UsesTrainingData):
        return
    ids, mask, sentences = objective.batch(np.array([NUM_BATCHES]), 0).args
    model.eval()
    with torch.no_grad():
        num_classes = model(ids, mask, sentences).logits.shape[-1]
    labels = np.eye(num_classes)[np.arange(len(ids)) % num_classes]
    model.train()
    model.fit_training_data(ids.flatten().numpy(), np.arange(0, ids.numel() + 1, ids.shape[1]), labels)
