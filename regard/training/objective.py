"""The interface that the training loop needs: batches, losses as sums, and an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from torch import Tensor, nn


@dataclass(frozen=True)
class LossTerm:
    """One term of the loss.

    The loop divides by the number of items in the global batch, over all processes and micro-batches:
    loss = Σ_t weight_t · (Σ sum_t) / (Σ count_t).

    Args:
        sum: The sum over the items of a batch, not the mean.
        weight: The weight of the term in the loss.
    """

    sum: Tensor
    weight: float = 1.0


class Batch(Protocol):
    """The tensors of a batch and its size."""

    @property
    def counts(self) -> Mapping[str, float]:
        """How many items each loss term sums over. Every batch names every term, with 0 if it has none."""
        ...

    @property
    def tokens(self) -> int:
        """The number of tokens without padding, for the throughput."""
        ...


class Objective(Protocol):
    """What is trained. `plan` and `batch` depend on (seed, epoch, indices) only, so that runs can be resumed."""

    monitor: str
    """The metric of `evaluate` that selects the best model."""
    mode: Literal["max", "min"]

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The global batches of an epoch, each an array of item indices."""
        ...

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        """The items with these indices as a `Batch`. Not empty."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Mapping[str, LossTerm]:
        """The sum of each term over the batch, by the names of `batch.counts`. Must call the model's forward."""
        ...

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Metrics of the validation data; called in evaluation mode without gradients. {} if there is none."""
        ...
