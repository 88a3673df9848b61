"""Keys and values that are computed once and attended to many times.

Decoders keep one for their own past tokens, and one for the source: encoder states or an image. Without gradients
`extend` writes into a buffer with spare capacity, so that a decoding step copies only the new keys. With
`max_lookback` (a local window) keys that no later query can attend to are dropped, so that memory and time of a step
stay constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds, position_tensor


@dataclass
class _Buffer:
    """Preallocated keys and values. `used` is checked so that two continuations of one cache do not overwrite each
    other."""

    keys: Tensor
    values: Tensor
    used: int


@dataclass
class KVCache:
    """Projected keys and values with their mask and positions.

    Args:
        keys: (b, h, k, key_width).
        values: (b, h, k, value_width).
        position_ids: Positions of the keys.
        key_mask: True for keys that are not padding, (b, k). None if there is no padding.
        max_lookback: Number of keys that are kept for the next query. None keeps all.
    """

    keys: Tensor
    values: Tensor
    position_ids: PositionIds
    key_mask: Tensor | None = None
    max_lookback: int | None = None
    _buffer: _Buffer | None = None
    _offset: int = 0

    def __len__(self) -> int:
        return self.keys.shape[2]

    def extend(self, new: KVCache) -> KVCache:
        """Return a cache with the keys of this one, followed by the new ones."""
        past = self._drop_old_keys()
        key_mask = _concat_key_masks(past, new)
        position_ids = _concat_position_ids(past.position_ids, new.position_ids)
        if torch.is_grad_enabled():
            keys, values = torch.cat((past.keys, new.keys), 2), torch.cat((past.values, new.values), 2)
            return KVCache(keys, values, position_ids, key_mask, self.max_lookback)
        n, m = len(past), len(new)
        buffer, start = past._buffer, past._offset
        if buffer is None or buffer.used != start + n or start + n + m > buffer.keys.shape[2]:
            buffer, start = _Buffer(_allocate(past.keys, n + m), _allocate(past.values, n + m), n), 0
            buffer.keys[:, :, :n], buffer.values[:, :, :n] = past.keys, past.values
        stop = start + n + m
        buffer.keys[:, :, start + n : stop], buffer.values[:, :, start + n : stop] = new.keys, new.values
        buffer.used = stop
        keys, values = buffer.keys[:, :, start:stop], buffer.values[:, :, start:stop]
        return KVCache(keys, values, position_ids, key_mask, self.max_lookback, buffer, start)

    def select(self, rows: Tensor) -> KVCache:
        """Return the cache of these batch rows, in this order: surviving beams, or sentences that are not finished.

        Args:
            rows: Indices of batch rows, (new batch,). A row may occur several times.
        """
        key_mask = None if self.key_mask is None else self.key_mask[rows]
        position_ids = self.position_ids
        if isinstance(position_ids, Tensor) and position_ids.dim() == 2:
            position_ids = position_ids[rows]
        return KVCache(self.keys[rows], self.values[rows], position_ids, key_mask, self.max_lookback)

    def _drop_old_keys(self) -> KVCache:
        """Drop the keys before the last `max_lookback`."""
        drop = len(self) - self.max_lookback if self.max_lookback is not None else 0
        if drop <= 0:
            return self
        ids = self.position_ids
        return replace(
            self,
            keys=self.keys[:, :, drop:],
            values=self.values[:, :, drop:],
            position_ids=ids[drop:] if isinstance(ids, range) else position_tensor(ids)[..., drop:],
            key_mask=None if self.key_mask is None else self.key_mask[:, drop:],
            _offset=self._offset + drop,
        )


def next_position_ids(cache: KVCache | None, n: int) -> PositionIds:
    """The n positions that follow those of a cache; (b, n) if they differ between batch rows."""
    if cache is None:
        return range(n)
    if isinstance(cache.position_ids, range):
        return range(cache.position_ids.stop, cache.position_ids.stop + n)
    last = position_tensor(cache.position_ids, cache.keys.device)[..., -1:]
    return last + torch.arange(1, n + 1, device=last.device)


def _allocate(x: Tensor, n: int) -> Tensor:
    """An uninitialized buffer like x, (b, h, ·, d), for at least n keys."""
    b, h, _, d = x.shape
    return x.new_empty(b, h, max(64, 2 * n), d)


def _concat_key_masks(first: KVCache, second: KVCache) -> Tensor | None:
    if first.key_mask is None and second.key_mask is None:
        return None
    masks = [
        c.keys.new_ones(c.keys.shape[0], len(c), dtype=torch.bool) if c.key_mask is None else c.key_mask
        for c in (first, second)
    ]
    return torch.cat(masks, 1)


def _concat_position_ids(first: PositionIds, second: PositionIds) -> PositionIds:
    if isinstance(first, range) and isinstance(second, range) and (first.stop == second.start or not first):
        return range(first.start if first else second.start, second.stop)
    a, b = position_tensor(first), position_tensor(second)
    if a.dim() != b.dim():
        rows = max(a.shape[0] if a.dim() == 2 else 1, b.shape[0] if b.dim() == 2 else 1)
        a, b = a.expand(rows, a.shape[-1]), b.expand(rows, b.shape[-1])
    return torch.cat((a, b), -1)
