"""The keys and values of one layer with room for what is to come, written in place.

A `Memory` may be gone on from twice, so each step makes a new one. A cache has one owner and is changed, which leaves
one write to a step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.kv_cache import KVCache


class Cache:
    """What a memory holds, and `room` more places. both: (2, b, h, places, d), the keys and the values."""

    def __init__(self, memory: KVCache, room: int):
        self.taken, (b, h, n, d) = len(memory), memory.keys.shape
        self.both = memory.keys.new_empty(2, b, h, n + room, d)
        self.both[0, :, :, :n], self.both[1, :, :, :n] = memory.keys, memory.values

    def extend(self, new: Tensor) -> tuple[Tensor, ...]:
        """All keys and all values (b, h, k, d) up to these new ones (2, b, h, new, d)."""
        start = self.claim(count := new.shape[3])
        self.both.narrow(3, start, count).copy_(new)
        return self.both.narrow(3, 0, start + count).unbind(0)

    def claim(self, count: int) -> int:
        """Take so many places, which the caller writes; the first of them."""
        start, places = self.taken, self.both.shape[3]
        self.taken = start + count
        if self.taken > places:
            more = self.both.new_empty(*self.both.shape[:3], places + count, self.both.shape[4])
            self.both = torch.cat((self.both, more), 3)
        return start

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch, in this order; only what is taken is copied."""
        picked = self.both.new_empty(2, len(rows), *self.both.shape[2:])
        taken = self.both[:, :, :, : self.taken]
        torch.index_select(taken, 1, rows, out=picked[:, :, :, : self.taken])
        self.both = picked
