"""Three ways through a model of two sides, each with the same words: read the sources, then one word of each beam.

    Prepared    prepared weights; the beams of a sentence are places that stand beside each other: dot attention
    Remembered  what came before is kept as the layers' `Memory`, a row for each beam: any mechanism and positions
    Recurrent   a state for each beam

A source is read once for all of its beams. In `Prepared` and `Recurrent` the beams are queries of one row, so that
nothing of the source is copied; in `Prepared` the past is not copied either: each beam sees, of what its sentence has
said, its own past alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import kernels
from regard.attention.kv_cache import KVCache
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.rotary import Rotary
from regard.decoding import quantized_linear
from regard.decoding.causal_decoders import watched
from regard.decoding.fused_blocks import fuse
from regard.decoding.inplace_kv_cache import Cache
from regard.decoding.optimized_blocks import Block, Seen, Stretch, prepare, prepared_norm
from regard.errors import UserError
from regard.models.marian import Marian
from regard.models.rnn_translator import RNNTranslator
from regard.models.transformer import Transformer

BLOCK = 64
"""The vocabulary is filled up to a multiple of this; beam.py looks at the words in such blocks."""


class Speaker(Protocol):
    def read(self, source: Tensor, mask: Tensor | None, begin: int, room: int, beams: int) -> Tensor:
        """Read sources (b, m) and say `begin`; the logits of the first word, (b, 1, vocab or more). `room` words may
        follow in each of the beams."""
        ...

    def step(self, words: Tensor, parents: Tensor) -> Tensor:
        """One more word of each beam (b, w), which goes on from the beam `parents` (b, w) of the step before; the
        logits of the next, (b, w, vocab or more)."""
        ...

    def select(self, rows: Tensor) -> None:
        """Go on with these sentences."""
        ...


class Prepared:
    def __init__(
        self,
        model: Transformer | Marian,
        readers: list[Block],
        blocks: list[Block],
        never: Iterable[int],
        precision: str,
    ):
        self.readers, self.blocks, self.positions = readers, blocks, model.positions
        self.fused = fuse(blocks)
        self.read_norm = prepared_norm(getattr(model, "encoder_norm", nn.Identity()))
        self.norm = prepared_norm(getattr(model, "decoder_norm", nn.Identity()))
        weight, bias = model.embed.weight.detach(), model.bias.detach().clone()
        self.embed = weight * model.scale
        bias[list(never)] = -torch.inf
        extra = -len(weight) % BLOCK
        weight, bias = F.pad(weight, (0, 0, 0, extra)), F.pad(bias, (0, extra), value=-torch.inf)
        self.head = quantized_linear.linear(precision)(weight, bias)

    def read(self, source: Tensor, mask: Tensor | None, begin: int, room: int, beams: int) -> Tensor:
        self.hidden = None
        if mask is not None:
            self.hidden = torch.zeros(mask.shape).masked_fill_(~mask, -torch.inf)[:, None, None]
        (b, m), self.said, self.seen = source.shape, 0, None
        self.path, self.source_seen = None, self.hidden
        states = self._encode(source, range(m))
        self.source = [block.source.read(states, b) for block in self.blocks if block.source is not None]
        known = kernels.ready(self.embed) and all(kernels.ready(memory.keys) for memory in self.source)
        self.native = known and self.positions.kind != "bias"
        if self.native and (mask is None or _in_front(mask)):
            self.source_seen = Stretch(last=None if mask is None else mask.sum(1, dtype=torch.int32))
        self.room, self.columns = 1 + beams * min(room, 64), torch.zeros(0, dtype=torch.long)
        self.caches = [Cache(_nothing(memory, b), self.room) for memory in self.source]
        return self.step(torch.full((b, 1), begin), torch.zeros(b, 1, dtype=torch.long))

    def _encode(self, ids: Tensor, at: range) -> Tensor:
        """What is known at each place of the sources (b, m), as (b · m, dim)."""
        x = self.positions.embed(self.embed[ids], at).flatten(0, 1)
        bias = self.hidden
        if self.positions.kind == "bias":
            placed = self.positions.bias(at, at)
            bias = placed if bias is None or placed is None else placed + bias
        for block in self.readers:
            x = block(x, len(ids), at=at, seen=bias)
        return self.read_norm(x, None)[1]

    def step(self, words: Tensor, parents: Tensor) -> Tensor:
        b, w = words.shape
        at = range(self.said, self.said + 1)
        x = self.positions.embed(self.embed.index_select(0, words.view(-1))[:, None], at).flatten(0, 1)
        seen: Seen = self._stretch(parents) if self.native else self._bias(parents, at)
        if self.fused is not None and isinstance(seen, Stretch) and isinstance(self.source_seen, Stretch):
            x = self.fused.step(x, self.caches, seen, at, self.source, self.source_seen)
        else:
            for block, cache, source in zip(self.blocks, self.caches, self.source, strict=True):
                x = block(x, cache, source, at=at, seen=seen, source_seen=self.source_seen)
        self.said += 1
        return self.head(self.norm(x, None)[1]).view(b, w, -1)

    def select(self, rows: Tensor) -> None:
        for cache in self.caches:
            cache.select(rows)
        self.source = [KVCache(m.keys.index_select(0, rows), m.values.index_select(0, rows), m.position_ids) for m in self.source]
        self.seen = None if self.seen is None else self.seen.index_select(0, rows)
        self.path = None if self.path is None else self.path.index_select(0, rows)
        if isinstance(self.source_seen, Tensor):
            self.source_seen = self.source_seen.index_select(0, rows)
        elif self.source_seen is not None and self.source_seen.last is not None:
            self.source_seen = Stretch(last=self.source_seen.last.index_select(0, rows))

    def _stretch(self, parents: Tensor) -> Stretch:
        """Each beam's own past, as a path through all that the beams of its sentence have said."""
        (b, w), taken, at = parents.shape, self.caches[0].taken, self.said
        if w == 1 and self.path is None:
            return Stretch()
        if self.path is None:  # all that was said before beams part is seen by all
            self.path = torch.arange(max(64, 2 * at), dtype=torch.int32).expand(b, w, -1).contiguous()
            self.new, self.first = torch.arange(w, dtype=torch.int32), torch.arange(b)[:, None] * w
        else:
            if at >= self.path.shape[-1]:
                self.path = F.pad(self.path, (0, at))
            rows = (self.first[:b] + parents).view(-1)
            self.path = self.path.view(b * w, -1).index_select(0, rows).view(b, w, -1)
        self.path[:, :, at] = self.new + taken
        return Stretch(self.path.narrow(2, 0, at + 1))

    def _bias(self, parents: Tensor, at: range) -> Tensor | None:
        """What is added to the scores: -inf for what other beams have said, and what positions add."""
        (b, w), taken = parents.shape, self.caches[0].taken
        placed = self.positions.kind == "bias"
        if placed:
            self.columns = torch.cat((self.columns, torch.full((w,), at.start)))
        if w == 1 and self.seen is None:
            return self.positions.bias(at, self.columns) if placed else None
        if self.seen is None:  # all that was said before beams part is seen by all
            self.seen = torch.zeros(b, w, max(self.room, taken + w))
            self.own = torch.full((w, w), -torch.inf).fill_diagonal_(0.0)
            self.first = torch.arange(b)[:, None] * w
        else:
            if len(self.first) > b:
                self.first = self.first[:b]
            if taken + w > self.seen.shape[-1]:
                self.seen = F.pad(self.seen, (0, self.seen.shape[-1] + w))
            self.seen = self.seen.view(b * w, -1).index_select(0, (self.first + parents).view(-1)).view(b, w, -1)
        self.seen.narrow(2, taken, w).copy_(self.own)
        seen = self.seen.narrow(2, 0, taken + w)[:, None]
        added = self.positions.bias(at, self.columns) if placed else None
        return seen if added is None else seen + added


class Remembered:
    def __init__(self, model: Transformer | Marian, never: Iterable[int]):
        self.model, self.never = model, list(never)

    def read(self, source: Tensor, mask: Tensor | None, begin: int, room: int, beams: int) -> Tensor:
        self.source, self.beams = self.model.read(self.model.encode(source, mask=mask), mask=mask), 1
        self.past: list[KVCache] | None = None
        return self._said(torch.full((len(source), 1), begin))

    def step(self, words: Tensor, parents: Tensor) -> Tensor:
        b, w = words.shape
        rows = (torch.arange(b)[:, None] * self.beams + parents).view(-1)
        moved = w != self.beams or not torch.equal(rows, torch.arange(b * w))
        if moved and self.past is not None:
            self.past = [memory.select(rows) for memory in self.past]
        if w != self.beams:
            self.source = [memory.select(rows) for memory in self.source]
            self.beams = w
        return self._said(words)

    def select(self, rows: Tensor) -> None:
        each = (rows[:, None] * self.beams + torch.arange(self.beams)).view(-1)
        self.source = [memory.select(each) for memory in self.source]
        self.past = None if self.past is None else [memory.select(each) for memory in self.past]

    def _said(self, words: Tensor) -> Tensor:
        logits, self.past = self.model.step(words.reshape(-1, 1), self.past, self.source)
        return _without(logits[:, -1], self.never).view(*words.shape, -1)


class Recurrent:
    def __init__(self, model: RNNTranslator, never: Iterable[int]):
        self.model, self.never = model, list(never)

    def read(self, source: Tensor, mask: Tensor | None, begin: int, room: int, beams: int) -> Tensor:
        self.source, self.state = self.model.read(self.model.encode(source, mask=mask), mask=mask)
        self.said, self.beams = 0, 1
        return self.step(torch.full((len(source), 1), begin), torch.zeros(len(source), 1, dtype=torch.long))

    def step(self, words: Tensor, parents: Tensor) -> Tensor:
        b, w = words.shape
        if w > 1 or self.beams > 1:
            rows = (torch.arange(b)[:, None] * self.beams + parents).view(-1)
            self.state = tuple(part.index_select(1, rows) for part in self.state)
        self.beams = w
        logits, self.state = self.model.step(words.reshape(-1), self.source, self.state, self.said)
        self.said += 1
        return _without(logits, self.never).view(b, w, -1)

    def select(self, rows: Tensor) -> None:
        self.source = self.source.select(rows)
        each = (rows[:, None] * self.beams + torch.arange(self.beams)).view(-1)
        self.state = tuple(part.index_select(1, each) for part in self.state)


def speaker(model: nn.Module, *, never: Iterable[int] = (), precision: str = quantized_linear.WHOLE) -> Speaker:
    """The fastest way through this model. Another precision than float32 needs prepared weights."""
    never = sorted(set(never))
    if isinstance(model, Transformer | Marian) and _plain(model.positions) and not watched(model):
        readers, blocks = prepare(model.encoder, precision), prepare(model.decoder, precision)
        if readers is not None and blocks is not None:
            return Prepared(model, readers, blocks, never, precision)
    if precision != quantized_linear.WHOLE:
        raise UserError(
            f"precision {precision!r} wants a Transformer with dot attention; this {type(model).__name__} has another "
            "way of decoding: leave the precision out"
        )
    if isinstance(model, RNNTranslator):
        return Recurrent(model, never)
    if isinstance(model, Transformer | Marian):
        return Remembered(model, never)
    raise UserError(f"{type(model).__name__} is no model of two sides: it has nothing to translate with")


def _plain(positions: PositionEncoding) -> bool:
    """Positions that act in attention by distance alone."""
    return not positions.inside or positions.by_distance or isinstance(positions, Rotary)


def _in_front(mask: Tensor) -> bool:
    """Whether what is real stands before what is not, in each row."""
    return bool((mask[:, 1:] <= mask[:, :-1]).all())


def _nothing(like: KVCache, b: int) -> KVCache:
    empty = like.keys.new_empty(b, like.keys.shape[1], 0, like.keys.shape[3])
    return KVCache(empty, empty, range(0))


def _without(logits: Tensor, never: list[int]) -> Tensor:
    if never:
        logits[:, never] = -torch.inf
    return F.pad(logits, (0, -logits.shape[-1] % BLOCK), value=-torch.inf)
