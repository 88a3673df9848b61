"""A KV cache of one layer with free space for new positions, which are written in place.

Each step of a `KVCache` makes a new object, since the old one may be continued twice. An `InPlaceKVCache` has one owner
and is changed, so a step needs a single write.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.kv_cache import KVCache


class InPlaceKVCache:
    """The contents of a `KVCache` with space for more positions.

    Args:
        cache: The keys and values to start with, each (b, h, n, d).
        capacity: How many positions to reserve after them. The cache grows where that is not enough.

    Attributes:
        keys_values: The keys and the values, (2, b, h, positions, d).
        length: How many of the positions are used.
    """

    def __init__(self, cache: KVCache, capacity: int):
        self.length, (b, h, n, d) = len(cache), cache.keys.shape
        self.keys_values = cache.keys.new_empty(2, b, h, n + capacity, d)
        self.keys_values[0, :, :, :n], self.keys_values[1, :, :, :n] = cache.keys, cache.values

    def extend(self, new: Tensor) -> tuple[Tensor, ...]:
        """Append keys and values, (2, b, h, new, d). Returns all keys and all values, each (b, h, k, d)."""
        start = self.reserve(count := new.shape[3])
        self.keys_values.narrow(3, start, count).copy_(new)
        return self.keys_values.narrow(3, 0, start + count).unbind(0)

    def reserve(self, count: int) -> int:
        """Reserve positions, which the caller writes. Returns the first of them."""
        start, positions = self.length, self.keys_values.shape[3]
        self.length = start + count
        if self.length > positions:
            shape = self.keys_values.shape
            more = self.keys_values.new_empty(*shape[:3], positions + count, shape[4])
            self.keys_values = torch.cat((self.keys_values, more), 3)
        return start

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order. Copies the used positions only."""
        selected = self.keys_values.new_empty(2, len(rows), *self.keys_values.shape[2:])
        used = self.keys_values[:, :, :, : self.length]
        torch.index_select(used, 1, rows, out=selected[:, :, :, : self.length])
        self.keys_values = selected
