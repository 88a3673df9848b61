"""Exponential moving average of the weights (Polyak & Juditsky 1992), with decay and bias correction as for Adam's
moments (Kingma & Ba 2015, section 3).

    a_t = Σ_{s<=t} β^(t-s) w_s / Σ_{s<=t} β^(t-s)    that is    a_t = a_{t-1} + (w_t - a_{t-1}) (1 - β) / (1 - β^t)

The first steps do not get too much weight, and constant weights are equal to their average bit by bit. It costs one
pass over the weights per step. Processes with the same weights have the same average, and with
sharded weights each process averages its own shard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


class EMA:
    """The average of parameters.

    Args:
        params: The parameters.
        decay: The decay β, such as 0.999.
        num_updates: How many steps are in the average.
    """

    def __init__(self, params: Sequence[Tensor], decay: float, count: int = 0) -> None:
        self.params, self.decay, self.num_updates = list(params), decay, count
        self.averages = [t.clone() for t in self._local_tensors()]

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights, after a step."""
        self.num_updates += 1
        weight = (1 - self.decay) / (1 - self.decay**self.num_updates)
        for average, tensor in zip(self.averages, self._local_tensors(), strict=True):
            average.copy_(tensor) if self.num_updates == 1 else average.lerp_(tensor, weight)

    @contextlib.contextmanager
    def average_parameters(self) -> Iterator[None]:
        """While entered, the parameters hold their average; then they are restored bit by bit."""
        if not self.num_updates:
            yield
            return
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for tensor, average in zip(self._local_tensors(), self.averages, strict=True):
            previous = tensor.clone()
            tensor.copy_(average)
            average.copy_(previous)

    def _local_tensors(self) -> list[Tensor]:
        """The part of each parameter that this process has: all of it, or its shard."""
        tensors: list[Any] = [p.detach() for p in self.params]
        return [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
