"""Three decoders for encoder-decoder models with the same interface: read the sources, then one token of each beam.

    OptimizedSeq2SeqDecoder  converted weights; the beams of a sentence are queries of one row: dot attention
    CachedSeq2SeqDecoder     keeps a `KVCache` per layer, one row per beam: any mechanism and positions
    RecurrentSeq2SeqDecoder  keeps a recurrent state per beam

A source is encoded once for all of its beams. In the optimized and the recurrent decoder the beams are queries of one
row, so the source is not copied. The optimized decoder does not copy the past either: each beam sees, of all tokens of
its sentence, its own past only. A decoder holds the state of one call; `copy.copy` of a decoder shares
its weights, but not its state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import kernels
from regard.attention.kv_cache import KVCache
from regard.decoding import quantized_linear
from regard.decoding.causal_decoders import has_hooks, uses_distances_only
from regard.decoding.fused_blocks import fuse_blocks
from regard.decoding.inplace_kv_cache import InPlaceKVCache
from regard.decoding.optimized_blocks import KeyRange, OptimizedBlock, VisibleKeys, build_norm, optimize_blocks
from regard.errors import UserError
from regard.models.marian import Marian
from regard.models.rnn_translator import RNNTranslator
from regard.models.transformer import Transformer

BLOCK = 64
"""The vocabulary is padded to a multiple of this; beam_search.py searches it in such blocks."""


class Seq2SeqDecoder(Protocol):
    """The interface of the decoders."""

    def start(self, source: Tensor, mask: Tensor | None, bos_id: int, max_new_tokens: int, beam_size: int) -> Tensor:
        """Encode sources (b, m) and read `bos_id`. Returns the logits of the first token, (b, 1, vocab or more).

        `max_new_tokens` tokens may follow in each of the `beam_size` beams.
        """
        ...

    def step(self, ids: Tensor, parents: Tensor) -> Tensor:
        """Read one more token of each beam. Returns the logits of the next, (b, w, vocab or more).

        Args:
            ids: The tokens, (b, w).
            parents: Which beam of the step before each one continues, (b, w).
        """
        ...

    def select(self, rows: Tensor) -> None:
        """Keep these sentences."""
        ...


class OptimizedSeq2SeqDecoder:
    """Runs optimized blocks on caches that are written in place. `suppress` are token ids that are never chosen."""

    def __init__(
        self,
        model: Transformer | Marian,
        encoder_blocks: list[OptimizedBlock],
        decoder_blocks: list[OptimizedBlock],
        suppress: Iterable[int],
        precision: str,
    ):
        self.encoder_blocks, self.decoder_blocks, self.positions = encoder_blocks, decoder_blocks, model.positions
        self.fused = fuse_blocks(decoder_blocks)
        self.encoder_norm = build_norm(getattr(model, "encoder_norm", nn.Identity()))
        self.decoder_norm = build_norm(getattr(model, "decoder_norm", nn.Identity()))
        weight, bias = model.embed.weight.detach(), model.bias.detach().clone()
        self.embed = weight * model.scale
        bias[list(suppress)] = -torch.inf
        extra = -len(weight) % BLOCK
        weight, bias = F.pad(weight, (0, 0, 0, extra)), F.pad(bias, (0, extra), value=-torch.inf)
        self.head = quantized_linear.linear_factory(precision)(weight, bias)

    def start(self, source: Tensor, mask: Tensor | None, bos_id: int, max_new_tokens: int, beam_size: int) -> Tensor:
        self.padding_bias = None
        if mask is not None:
            self.padding_bias = torch.zeros(mask.shape).masked_fill_(~mask, -torch.inf)[:, None, None]
        (b, m), self.length, self.beam_bias = source.shape, 0, None
        self.paths, self.source_visible = None, self.padding_bias
        states = self._encode(source, range(m))
        layers = [block.cross_attention for block in self.decoder_blocks if block.cross_attention is not None]
        self.sources = [layer.project_source(states, b) for layer in layers]
        tensors = [self.embed, *(source.keys for source in self.sources)]
        self.use_kernels = all(map(kernels.can_use_kernels, tensors)) and self.positions.kind != "bias"
        if self.use_kernels and (mask is None or _is_right_padded(mask)):
            self.source_visible = KeyRange(last=None if mask is None else mask.sum(1, dtype=torch.int32))
        self.capacity, self.columns = 1 + beam_size * min(max_new_tokens, 64), torch.zeros(0, dtype=torch.long)
        self.caches = [InPlaceKVCache(_empty_cache(source, b), self.capacity) for source in self.sources]
        return self.step(torch.full((b, 1), bos_id), torch.zeros(b, 1, dtype=torch.long))

    def _encode(self, ids: Tensor, position_ids: range) -> Tensor:
        """Encode sources (b, m) to states (b · m, dim)."""
        x = self.positions.embed(self.embed[ids], position_ids).flatten(0, 1)
        bias = self.padding_bias
        if self.positions.kind == "bias":
            position_bias = self.positions.bias(position_ids, position_ids)
            bias = position_bias if bias is None or position_bias is None else position_bias + bias
        for block in self.encoder_blocks:
            x = block(x, len(ids), position_ids=position_ids, visible=bias)
        return self.encoder_norm(x, None)[1]

    def step(self, ids: Tensor, parents: Tensor) -> Tensor:
        b, w = ids.shape
        position = range(self.length, self.length + 1)
        x = self.positions.embed(self.embed.index_select(0, ids.view(-1))[:, None], position).flatten(0, 1)
        visible: VisibleKeys = self._key_range(parents) if self.use_kernels else self._bias(parents, position)
        if self.fused is not None and isinstance(visible, KeyRange) and isinstance(self.source_visible, KeyRange):
            x = self.fused.step(x, self.caches, visible, position, self.sources, self.source_visible)
        else:
            options = {"position_ids": position, "visible": visible, "source_visible": self.source_visible}
            for block, cache, source in zip(self.decoder_blocks, self.caches, self.sources, strict=True):
                x = block(x, cache, source, **options)
        self.length += 1
        return self.head(self.decoder_norm(x, None)[1]).view(b, w, -1)

    def select(self, rows: Tensor) -> None:
        for cache in self.caches:
            cache.select(rows)
        self.sources = [
            KVCache(source.keys.index_select(0, rows), source.values.index_select(0, rows), source.position_ids)
            for source in self.sources
        ]
        self.beam_bias = None if self.beam_bias is None else self.beam_bias.index_select(0, rows)
        self.paths = None if self.paths is None else self.paths.index_select(0, rows)
        if isinstance(self.source_visible, Tensor):
            self.source_visible = self.source_visible.index_select(0, rows)
        elif self.source_visible is not None and self.source_visible.last is not None:
            self.source_visible = KeyRange(last=self.source_visible.last.index_select(0, rows))

    def _key_range(self, parents: Tensor) -> KeyRange:
        """The past of each beam, as a path through the tokens of all beams of its sentence."""
        (b, w), used, length = parents.shape, self.caches[0].length, self.length
        if w == 1 and self.paths is None:
            return KeyRange()
        if self.paths is None:  # all beams see the tokens from before they part
            self.paths = torch.arange(max(64, 2 * length), dtype=torch.int32).expand(b, w, -1).contiguous()
            self.beam_numbers, self.first_beam = torch.arange(w, dtype=torch.int32), torch.arange(b)[:, None] * w
        else:
            if length >= self.paths.shape[-1]:
                self.paths = F.pad(self.paths, (0, length))
            rows = (self.first_beam[:b] + parents).view(-1)
            self.paths = self.paths.view(b * w, -1).index_select(0, rows).view(b, w, -1)
        self.paths[:, :, length] = self.beam_numbers + used
        return KeyRange(self.paths.narrow(2, 0, length + 1))

    def _bias(self, parents: Tensor, position: range) -> Tensor | None:
        """The bias of the scores: -inf for tokens of other beams, plus the bias of the positions."""
        (b, w), used = parents.shape, self.caches[0].length
        position_bias = None
        if self.positions.kind == "bias":
            self.columns = torch.cat((self.columns, torch.full((w,), position.start)))
            position_bias = self.positions.bias(position, self.columns)
        if w == 1 and self.beam_bias is None:
            return position_bias
        if self.beam_bias is None:  # all beams see the tokens from before they part
            self.beam_bias = torch.zeros(b, w, max(self.capacity, used + w))
            self.own_token_bias = torch.full((w, w), -torch.inf).fill_diagonal_(0.0)
            self.first_beam = torch.arange(b)[:, None] * w
        else:
            if len(self.first_beam) > b:
                self.first_beam = self.first_beam[:b]
            if used + w > self.beam_bias.shape[-1]:
                self.beam_bias = F.pad(self.beam_bias, (0, self.beam_bias.shape[-1] + w))
            rows = (self.first_beam + parents).view(-1)
            self.beam_bias = self.beam_bias.view(b * w, -1).index_select(0, rows).view(b, w, -1)
        self.beam_bias.narrow(2, used, w).copy_(self.own_token_bias)
        bias = self.beam_bias.narrow(2, 0, used + w)[:, None]
        return bias if position_bias is None else bias + position_bias


class CachedSeq2SeqDecoder:
    """Keeps the `KVCache` of each layer, with one row per beam."""

    def __init__(self, model: Transformer | Marian, suppress: Iterable[int]):
        self.model, self.suppress = model, list(suppress)

    def start(self, source: Tensor, mask: Tensor | None, bos_id: int, max_new_tokens: int, beam_size: int) -> Tensor:
        self.sources, self.num_beams = self.model.project_source(self.model.encode(source, mask=mask), mask=mask), 1
        self.caches: list[KVCache] | None = None
        return self._logits(torch.full((len(source), 1), bos_id))

    def step(self, ids: Tensor, parents: Tensor) -> Tensor:
        b, w = ids.shape
        rows = (torch.arange(b)[:, None] * self.num_beams + parents).view(-1)
        reordered = w != self.num_beams or not torch.equal(rows, torch.arange(b * w))
        if reordered and self.caches is not None:
            self.caches = [cache.select(rows) for cache in self.caches]
        if w != self.num_beams:
            self.sources = [source.select(rows) for source in self.sources]
            self.num_beams = w
        return self._logits(ids)

    def select(self, rows: Tensor) -> None:
        rows = _beam_rows(rows, self.num_beams)
        self.sources = [source.select(rows) for source in self.sources]
        self.caches = None if self.caches is None else [cache.select(rows) for cache in self.caches]

    def _logits(self, ids: Tensor) -> Tensor:
        logits, self.caches = self.model.step(ids.reshape(-1, 1), self.caches, self.sources)
        return _suppress_and_pad(logits[:, -1], self.suppress).view(*ids.shape, -1)


class RecurrentSeq2SeqDecoder:
    """Keeps the recurrent state of each beam."""

    def __init__(self, model: RNNTranslator, suppress: Iterable[int]):
        self.model, self.suppress = model, list(suppress)

    def start(self, source: Tensor, mask: Tensor | None, bos_id: int, max_new_tokens: int, beam_size: int) -> Tensor:
        self.source, self.state = self.model.project_source(self.model.encode(source, mask=mask), mask=mask)
        self.length, self.num_beams = 0, 1
        return self.step(torch.full((len(source), 1), bos_id), torch.zeros(len(source), 1, dtype=torch.long))

    def step(self, ids: Tensor, parents: Tensor) -> Tensor:
        b, w = ids.shape
        if w > 1 or self.num_beams > 1:
            rows = (torch.arange(b)[:, None] * self.num_beams + parents).view(-1)
            self.state = tuple(part.index_select(1, rows) for part in self.state)
        self.num_beams = w
        logits, self.state = self.model.step(ids.reshape(-1), self.source, self.state, self.length)
        self.length += 1
        return _suppress_and_pad(logits, self.suppress).view(b, w, -1)

    def select(self, rows: Tensor) -> None:
        self.source = self.source.select(rows)
        rows = _beam_rows(rows, self.num_beams)
        self.state = tuple(part.index_select(1, rows) for part in self.state)


def build_seq2seq_decoder(
    model: nn.Module, *, suppress: Iterable[int] = (), precision: str = quantized_linear.FULL_PRECISION
) -> Seq2SeqDecoder:
    """The fastest decoder for this model.

    Args:
        suppress: Token ids that are never chosen.
        precision: float32, float16 or int8. The latter two need a model that can be optimized.
    """
    suppress = sorted(set(suppress))
    if isinstance(model, Transformer | Marian) and uses_distances_only(model.positions) and not has_hooks(model):
        encoder_blocks, decoder_blocks = (
            optimize_blocks(model.encoder, precision),
            optimize_blocks(model.decoder, precision),
        )
        if encoder_blocks is not None and decoder_blocks is not None:
            return OptimizedSeq2SeqDecoder(model, encoder_blocks, decoder_blocks, suppress, precision)
    if precision != quantized_linear.FULL_PRECISION:
        raise UserError(
            f"precision {precision!r} needs a Transformer with dot attention; {type(model).__name__} does not support "
            "it. Use float32"
        )
    if isinstance(model, RNNTranslator):
        return RecurrentSeq2SeqDecoder(model, suppress)
    if isinstance(model, Transformer | Marian):
        return CachedSeq2SeqDecoder(model, suppress)
    raise UserError(f"{type(model).__name__} is not an encoder-decoder model and cannot translate")


def _is_right_padded(mask: Tensor) -> bool:
    """Whether all real tokens come before the padding, in each row."""
    return bool((mask[:, 1:] <= mask[:, :-1]).all())


def _empty_cache(like: KVCache, b: int) -> KVCache:
    empty = like.keys.new_empty(b, like.keys.shape[1], 0, like.keys.shape[3])
    return KVCache(empty, empty, range(0))


def _beam_rows(sentences: Tensor, num_beams: int) -> Tensor:
    """The rows of all beams of these sentences."""
    return (sentences[:, None] * num_beams + torch.arange(num_beams)).view(-1)


def _suppress_and_pad(logits: Tensor, suppress: list[int]) -> Tensor:
    if suppress:
        logits[:, suppress] = -torch.inf
    return F.pad(logits, (0, -logits.shape[-1] % BLOCK), value=-torch.inf)
