"""The keys and values of one layer with room for what is to come, written in place.

A `Memory` may be gone on from twice, so each step makes a new one. A cache has one owner and is changed, which leaves
two writes to a step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.memory import Memory


class Cache:
    """What a memory holds, and `room` more places."""

    def __init__(self, memory: Memory, room: int):
        self.keys, self.values = _roomy(memory.keys, room), _roomy(memory.values, room)
        self.taken = len(memory)

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values up to these new ones, each (b, h, new, d)."""
        start, new = self.taken, keys.shape[2]
        self.taken = stop = start + new
        if stop > self.keys.shape[2]:
            self.keys, self.values = _roomy(self.keys, stop), _roomy(self.values, stop)
        self.keys.narrow(2, start, new).copy_(keys)
        self.values.narrow(2, start, new).copy_(values)
        return self.keys.narrow(2, 0, stop), self.values.narrow(2, 0, stop)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch, in this order."""
        self.keys, self.values = _picked(self.keys, rows, self.taken), _picked(self.values, rows, self.taken)


def _roomy(x: Tensor, room: int) -> Tensor:
    b, h, n, d = x.shape
    roomy = x.new_empty(b, h, n + room, d)
    roomy[:, :, :n] = x
    return roomy


def _picked(x: Tensor, rows: Tensor, taken: int) -> Tensor:
    """Only what is taken is copied."""
    picked = x.new_empty(len(rows), *x.shape[1:])
    torch.index_select(x[:, :, :taken], 0, rows, out=picked[:, :, :taken])
    return picked
