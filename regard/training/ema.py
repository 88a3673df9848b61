"""The exponential moving average of the weights (Polyak & Juditsky 1992), with decay and correction as in Adam's
moments (Kingma & Ba 2015, section 3).

    a_t = Σ_{s<=t} β^(t-s) w_s / Σ_{s<=t} β^(t-s)    that is    a_t = a_{t-1} + (w_t - a_{t-1}) (1 - β) / (1 - β^t)

so that the first steps do not weigh more than they should, and weights that stand still are their own average to the
bit. It costs one pass over the weights a step. Processes that hold the same weights hold the same average, and where
weights are spread over processes each averages its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


class EMA:
    """Of these parameters, which `shown` puts in their place for a while. `count` steps have gone into it."""

    def __init__(self, params: Sequence[Tensor], decay: float, count: int = 0) -> None:
        self.params, self.decay, self.num_updates = list(params), decay, count
        self.values = [t.clone() for t in self._own()]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are after a step."""
        self.num_updates += 1
        share = (1 - self.decay) / (1 - self.decay**self.num_updates)
        for value, own in zip(self.values, self._own(), strict=True):
            value.copy_(own) if self.num_updates == 1 else value.lerp_(own, share)

    @contextlib.contextmanager
    def average_parameters(self) -> Iterator[None]:
        """While entered, the parameters hold the average, and `values` what they held; then back, bit by bit."""
        if not self.num_updates:
            yield
            return
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for own, value in zip(self._own(), self.values, strict=True):
            kept = own.clone()
            own.copy_(value)
            value.copy_(kept)

    def _own(self) -> list[Tensor]:
        """What this process holds of each parameter: all of it, or its shard."""
        whole: list[Any] = [p.detach() for p in self.params]
        return [t.to_local() if hasattr(t, "to_local") else t for t in whole]
