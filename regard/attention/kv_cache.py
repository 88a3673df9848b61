"""What is read once and regarded many times: the encoder's states, an RNN decoder's source, a picture, a KV cache.

Without gradients `extend` writes into spare room, so a decoding step copies only what is new; `max_lookback` forgets keys that
no later query can see (a local window), which keeps both memory and time of a step constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds, position_tensor


@dataclass
class _Room:
    """Buffers with spare room, and how much of them is taken: two continuations of one memory must not share a
    place."""

    keys: Tensor
    values: Tensor
    taken: int


@dataclass
class KVCache:
    """keys (b, h, k, ·) and values (b, h, k, d), which keys are real (b, k), and where the keys stand."""

    keys: Tensor
    values: Tensor
    position_ids: PositionIds
    key_mask: Tensor | None = None
    max_lookback: int | None = None
    _room: _Room | None = None
    _start: int = 0

    def __len__(self) -> int:
        return self.keys.shape[2]

    def extend(self, new: KVCache) -> KVCache:
        """This memory followed by the new one."""
        past = self._forget()
        mask = _join_masks(past, new)
        position_ids = _join_at(past.position_ids, new.position_ids)
        if torch.is_grad_enabled():
            keys, values = torch.cat((past.keys, new.keys), 2), torch.cat((past.values, new.values), 2)
            return KVCache(keys, values, position_ids, mask, self.max_lookback)
        n, m = len(past), len(new)
        room, start = past._room, past._start
        if room is None or room.taken != start + n or start + n + m > room.keys.shape[2]:
            room, start = _Room(_buffer(past.keys, n + m), _buffer(past.values, n + m), n), 0
            room.keys[:, :, :n], room.values[:, :, :n] = past.keys, past.values
        stop = start + n + m
        room.keys[:, :, start + n : stop], room.values[:, :, start + n : stop] = new.keys, new.values
        room.taken = stop
        return KVCache(
            room.keys[:, :, start:stop],
            room.values[:, :, start:stop],
            position_ids,
            mask,
            self.max_lookback,
            room,
            start,
        )

    def select(self, rows: Tensor) -> KVCache:
        """The memory of these rows of the batch, in this order: beams that go on, sentences that are not finished."""
        mask = None if self.key_mask is None else self.key_mask[rows]
        position_ids = (
            self.position_ids[rows]
            if isinstance(self.position_ids, Tensor) and self.position_ids.dim() == 2
            else self.position_ids
        )
        return KVCache(self.keys[rows], self.values[rows], position_ids, mask, self.max_lookback)

    def _forget(self) -> KVCache:
        """Drop keys that lie further back than the max_lookback."""
        gone = len(self) - self.max_lookback if self.max_lookback is not None else 0
        if gone <= 0:
            return self
        position_ids = (
            self.position_ids[gone:]
            if isinstance(self.position_ids, range)
            else position_tensor(self.position_ids)[..., gone:]
        )
        mask = None if self.key_mask is None else self.key_mask[:, gone:]
        keys, values = self.keys[:, :, gone:], self.values[:, :, gone:]
        return KVCache(keys, values, position_ids, mask, self.max_lookback, self._room, self._start + gone)


def next_position_ids(past: KVCache | None, new: int) -> PositionIds:
    """The places that follow what is remembered, in each row of the batch where these differ."""
    if past is None:
        return range(new)
    if isinstance(past.position_ids, range):
        return range(past.position_ids.stop, past.position_ids.stop + new)
    last = position_tensor(past.position_ids, past.keys.device)[..., -1:]
    return last + torch.arange(1, new + 1, device=last.device)


def _buffer(like: Tensor, needed: int) -> Tensor:
    b, h, _, d = like.shape
    return like.new_empty(b, h, max(64, 2 * needed), d)


def _join_masks(a: KVCache, b: KVCache) -> Tensor | None:
    if a.key_mask is None and b.key_mask is None:
        return None
    parts = [
        m.key_mask if m.key_mask is not None else m.keys.new_ones(m.keys.shape[0], len(m), dtype=torch.bool)
        for m in (a, b)
    ]
    return torch.cat(parts, 1)


def _join_at(a: PositionIds, b: PositionIds) -> PositionIds:
    if isinstance(a, range) and isinstance(b, range) and (a.stop == b.start or not a):
        return range(a.start if a else b.start, b.stop)
    first, second = position_tensor(a), position_tensor(b)
    if first.dim() != second.dim():
        rows = max(first.shape[0] if first.dim() == 2 else 1, second.shape[0] if second.dim() == 2 else 1)
        first, second = first.expand(rows, first.shape[-1]), second.expand(rows, second.shape[-1])
    return torch.cat((first, second), -1)
