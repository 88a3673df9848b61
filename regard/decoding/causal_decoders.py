"""Three ways through a causal model, each with the same words: read the texts, then one word of each at a time.

    Anew        the whole text again for every word: any model
    Remembered  what came before is kept as the layers' `Memory`: any mechanism and positions
    Prepared    the same with prepared weights and caches written in place: dot attention

All three say the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import kernels
from regard.attention.kv_cache import next_position_ids
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.rotary import Rotary
from regard.decoding import quantized_linear
from regard.decoding.fused_blocks import fuse
from regard.decoding.inplace_kv_cache import Cache
from regard.decoding.left_padding import left
from regard.decoding.optimized_blocks import Block, Seen, Stretch, prepare, prepared_norm
from regard.errors import UserError
from regard.models.gpt import GPT

Texts = Sequence[Sequence[int]]


class Walker(Protocol):
    def read(self, texts: Texts, room: int) -> Tensor:
        """Forget what was before and read these; the logits of the next word of each, (b, vocab). `room` words may
        follow."""
        ...

    def step(self, ids: Tensor) -> Tensor:
        """One more word of each text (b,), and the logits of the next, (b, vocab)."""
        ...

    def select(self, rows: Tensor) -> None:
        """Go on with these texts, in this order; one may be taken more than once."""
        ...


class Anew:
    """model(ids, mask=, places=) to the logits after these places."""

    def __init__(self, model: nn.Module):
        self.model = model

    def read(self, texts: Texts, room: int) -> Tensor:
        self.texts = [list(text) for text in texts]
        return self._logits()

    def step(self, ids: Tensor) -> Tensor:
        for text, word in zip(self.texts, ids.tolist(), strict=True):
            text.append(word)
        return self._logits()

    def select(self, rows: Tensor) -> None:
        self.texts = [list(self.texts[i]) for i in rows.tolist()]

    def _logits(self) -> Tensor:
        last = torch.tensor([len(text) for text in self.texts]) - 1
        places = torch.arange(int(last.max()) + 1)
        ids = torch.tensor([text + [0] * (len(places) - len(text)) for text in self.texts])
        return self.model(ids, mask=places <= last[:, None], places=torch.arange(len(last)) * len(places) + last)


class Remembered:
    def __init__(self, model: GPT):
        self.model = model

    def read(self, texts: Texts, room: int) -> Tensor:
        ids, mask, at = left(texts)
        states, self.past = self.model.read_on(ids, mask=mask, position_ids=at)
        return self.model.head(states[:, -1])

    def step(self, ids: Tensor) -> Tensor:
        states, self.past = self.model.read_on(ids[:, None], self.past)
        return self.model.head(states[:, -1])

    def select(self, rows: Tensor) -> None:
        self.past = [memory.select(rows) for memory in self.past]


class Prepared:
    def __init__(self, model: GPT, blocks: list[Block], precision: str = "float32"):
        self.model, self.blocks, self.fused = model, blocks, fuse(blocks)
        self.positions, self.embed = model.positions, model.embed.weight.detach()
        self.norm, self.head = prepared_norm(model.norm), model.head
        if getattr(model, "adaptive", None) is None:
            self.head = quantized_linear.linear(precision)(model.embed.weight, None)

    def read(self, texts: Texts, room: int) -> Tensor:
        ids, mask, at = left(texts)
        # Positions inside attention know only distances, which padding on the left does not change: there all texts
        # may be counted from the first column.
        at = range(ids.shape[1]) if self.positions.inside else at
        states, memories = self.model.read_on(ids, mask=mask, position_ids=at)
        self.caches = [Cache(memory, room) for memory in memories[: len(self.blocks)]]
        self.before = memories[-1].keys[:, 0, :, 0] if self.model.reach else None
        self.at = next_position_ids(memories[0], 1)
        self.stretch = None
        if kernels.ready(states) and kernels.ready(memories[0].keys) and self.positions.kind != "bias":
            padding = None if mask is None else (~mask).sum(1, dtype=torch.int32)
            self.stretch = Stretch(first=padding)
        # Else padding is hidden by what is added to the scores: made once, and cut to the keys that there are.
        self.hidden = None
        if mask is not None and self.stretch is None:
            self.hidden = torch.zeros(len(ids), 1, 1, ids.shape[1] + room)
            self.hidden[:, 0, 0, : ids.shape[1]].masked_fill_(~mask, -torch.inf)
        return self.head(states[:, -1])

    def step(self, ids: Tensor) -> Tensor:
        n = self.caches[0].taken
        column = range(n, n + 1)
        x = self.positions.embed(self._words(ids), self.at).flatten(0, 1)
        seen: Seen = self.stretch or self._bias(column)
        if self.fused is not None and isinstance(seen, Stretch):
            x = self.fused.step(x, self.caches, seen, column)
        else:
            for block, cache in zip(self.blocks, self.caches, strict=True):
                x = block(x, cache, at=column, seen=seen)
        self.at = self.at + 1 if isinstance(self.at, Tensor) else range(n + 1, n + 2)
        return self.head(self.norm(x, None)[1])

    def select(self, rows: Tensor) -> None:
        for cache in self.caches:
            cache.select(rows)
        self.hidden = None if self.hidden is None else self.hidden[rows]
        if self.stretch is not None and self.stretch.first is not None:
            self.stretch = Stretch(first=self.stretch.first[rows])
        self.before = None if self.before is None else self.before[rows]
        self.at = self.at[rows] if isinstance(self.at, Tensor) else self.at

    def _words(self, ids: Tensor) -> Tensor:
        """(b,) to (b, 1, dim)."""
        if self.before is None:
            return self.embed.index_select(0, ids)[:, None]
        words = self.model.words(ids[:, None], self.before)
        self.before = torch.cat((self.before, ids[:, None]), 1)[:, -self.model.reach :]
        return words

    def _bias(self, column: range) -> Tensor | None:
        """What is added to the scores of this step, the same for all layers."""
        keys = range(column.stop)
        bias = self.positions.bias(column, keys) if self.positions.kind == "bias" else None
        if self.hidden is None:
            return bias
        if len(keys) > self.hidden.shape[-1]:  # what was given no room is no padding
            self.hidden = F.pad(self.hidden, (0, len(keys)))
        hidden = self.hidden[..., : len(keys)]
        return hidden if bias is None else hidden + bias


def walker(model: nn.Module, *, cache: bool = True, precision: str = "float32") -> Walker:
    """The fastest way through this model. Another precision than float32 needs prepared weights."""
    blocks = prepare(model.layers, precision) if cache and isinstance(model, GPT) and _plain(model.positions) else None
    if isinstance(model, GPT) and blocks is not None:
        return Prepared(model, blocks, precision)
    if precision != quantized_linear.WHOLE:
        raise UserError(
            f"precision {precision!r} wants a GPT with dot attention and its cache; this {type(model).__name__} has "
            "another way of decoding: leave the precision out"
        )
    return Remembered(model) if cache and isinstance(model, GPT) else Anew(model)


def watched(model: nn.Module) -> bool:
    """Whether a hook (`record`, `edit`, or a user's own) looks at the parts that prepared weights pass by."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def _plain(positions: PositionEncoding) -> bool:
    """Positions that act in attention by distance alone."""
    return not positions.inside or positions.by_distance or isinstance(positions, Rotary)
