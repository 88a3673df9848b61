"""What the loop asks of a task: batches, losses as sums, and a verdict. The loop knows no model and no data format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from torch import Tensor, nn


@dataclass(frozen=True)
class LossTerm:
    """One term of the loss: the sum over the items of a batch (not the mean) and its weight in the whole.

    The loop divides by the number of items in the global batch, over all processes and micro-batches:
    loss = Σ_t weight_t · (Σ sum_t) / (Σ count_t).
    """

    sum: Tensor
    weight: float = 1.0


class Batch(Protocol):
    """The tensors of a batch, and how much they hold."""

    @property
    def counts(self) -> Mapping[str, float]:
        """How many items each loss term sums over. Every batch names every term, with 0 where it has none."""
        ...

    @property
    def tokens(self) -> int:
        """How many real tokens the batch holds, for the throughput."""
        ...


class Objective(Protocol):
    """What is learnt. `plan` and `batch` are pure in (seed, epoch, indices): a resumed run asks for the same again."""

    monitor: str
    """Which of the numbers of `evaluate` decides about the best model."""
    mode: Literal["max", "min"]

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The global batches of an epoch, each an array of item indices."""
        ...

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        """The named items as a `Batch`. Not empty."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Mapping[str, LossTerm]:
        """Each term's sum over the batch, under the names of `batch.counts`. Calls the model through its forward."""
        ...

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """The numbers of the validation part; called in evaluation mode, without gradients. {} where there is none."""
        ...
