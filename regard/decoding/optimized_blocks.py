"""Transformer blocks prepared for decoding: the same weights as plain tensors, one product for queries, keys and
values, caches written in place, and no module, mask or place looked at on the way of a step.

    blocks = prepare(model.layers, "float32")                   # None where a block is of another kind
    for block, cache in zip(blocks, caches):
        x = block(x, cache, seen=seen, at=at)

x (b · w, dim) are w new places in each of b rows: w = 1 is a step of a text; w beams of one sentence are w places that
stand at the same place, of which each sees its own past alone. Then the cache is never reordered, and a source
(b, h, m, d) is shared by the beams of its row. Where b is given for a cache, all places are new and see each other: an
encoder. Between the products stand the kernels of regard.kernels, or torch where these are not to be had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import current_thread, main_thread

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import kernels
from regard.attention.kv_cache import KVCache
from regard.attention.mechanisms.dot import DotMechanism
from regard.attention.mechanisms.qkv_projection import QKV
from regard.attention.scores import DotScores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.decoding.inplace_kv_cache import Cache
from regard.decoding.quantized_linear import Linear, Make, linear
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, PreNorm

_NOWHERE = QueryKeyPositions(range(0), range(0))
"""A step's bias says all that places would."""

_FEW = 8192
"""Numbers up to which a call's own cost outweighs its work."""


@dataclass(frozen=True)
class Stretch:
    """What queries may see, for the kernels: `path` (b, w, n) through the keys, or all keys; of it the places from
    `first` (b,) up to `last` (b,)."""

    path: Tensor | None = None
    first: Tensor | None = None
    last: Tensor | None = None


Seen = Stretch | Tensor | None
"""A stretch; or what is added to the scores (b or 1, h or 1, w or 1, k), -inf for what may not be seen; or all."""


class Own:
    """Self-attention of new places: to what came before and to themselves, or without a cache to each other."""

    def __init__(self, layer: MultiHeadAttention, make: Make):
        m = _dot(layer)
        assert m.qkv is not None
        self.heads, self.width, n = m.heads, m.key_width, m.qkv.widths[0]
        self.qkv, self.out = make(*_scaled(m.qkv.weight, m.qkv.bias, n, m.scale)), _made(layer.out, make)
        self.rotate = m.positions.rotate if m.positions.kind == "rotate" else None

    def __call__(self, x: Tensor, b: int, cache: Cache | None, seen: Seen, at: PositionIds) -> Tensor:
        made = self.qkv(x)
        if self.rotate is None and cache is not None and isinstance(seen, Stretch):
            start = cache.claim(len(made) // b)
            return self.out(kernels.attend_own(made, cache.both, start, seen.path, seen.first))
        qkv = made.view(b, -1, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        if self.rotate is not None:
            qkv = torch.cat((self.rotate(qkv[:2].flatten(0, 1), at).unflatten(0, (2, b)), qkv[2:]))
        keys, values = qkv[1:] if cache is None else cache.extend(qkv[1:])
        return self.out(attend(qkv[0], keys, values, seen))


class Source:
    """Attention to a memory that was read before."""

    def __init__(self, layer: MultiHeadAttention, make: Make):
        m = _dot(layer)
        self.heads, self.width = m.heads, m.key_width
        if m.qkv is None:
            weight, bias, self.both = m.q.weight, m.q.bias, make(m.kv.weight, m.kv.bias)
        else:
            n, whole, add = m.qkv.widths[0], m.qkv.weight, m.qkv.bias
            weight, bias = whole[:n], None if add is None else add[:n]
            self.both = make(whole[n:], None if add is None else add[n:])
        self.query = make(*_scaled(weight, bias, len(weight), m.scale))
        self.out = _made(layer.out, make)

    def read(self, x: Tensor, b: int) -> KVCache:
        """The places (b · m, dim) of a source as they are regarded, once for all steps."""
        keys, values = self.both(x).view(b, -1, 2, self.heads, self.width).permute(2, 0, 3, 1, 4).contiguous()
        return KVCache(keys, values, range(keys.shape[2]))

    def __call__(self, x: Tensor, b: int, source: KVCache, seen: Seen) -> Tensor:
        q = self.query(x).view(b, -1, self.heads, self.width).transpose(1, 2)
        return self.out(attend(q, source.keys, source.values, seen))


class Feed:
    def __init__(self, feed: FeedForward, make: Make):
        fused = feed.activation is F.relu and isinstance(feed.up, nn.Linear)
        self.up, self.down = _made(feed.up, make, relu=fused), _made(feed.down, make)
        self.activation = None if fused else gelu if feed.activation is F.gelu else feed.activation

    def __call__(self, x: Tensor) -> Tensor:
        x = self.up(x)
        return self.down(x if self.activation is None else self.activation(x))


class Block:
    """An EncoderBlock (of a GPT) or a DecoderBlock, norms before or after each part."""

    def __init__(self, block: EncoderBlock | DecoderBlock, make: Make):
        self.before = isinstance(block.attention_residual, PreNorm)
        self.own, self.feed = Own(block.attention, make), Feed(_feed(block), make)
        self.own_norm = prepared_norm(block.attention_residual.norm)
        self.feed_norm = prepared_norm(block.ffn_residual.norm)
        self.source: Source | None = None
        if isinstance(block, DecoderBlock):
            self.source, self.source_norm = Source(block.cross_attention, make), prepared_norm(block.cross_attention_residual.norm)

    def __call__(
        self,
        x: Tensor,
        cache: Cache | int,
        source: KVCache | None = None,
        *,
        at: PositionIds,
        seen: Seen = None,
        source_seen: Seen = None,
    ) -> Tensor:
        b, kept = (cache, None) if isinstance(cache, int) else (cache.both.shape[1], cache)
        parts: list[tuple[Norm, Linear]] = [(self.own_norm, lambda x: self.own(x, b, kept, seen, at))]
        if (regarded := self.source) is not None and source is not None:
            parts.append((self.source_norm, lambda x: regarded(x, b, source, source_seen)))
        parts.append((self.feed_norm, self.feed))
        if not self.before:
            for norm, part in parts:
                x = norm(part(x), x)[1]
            return x
        y = None
        for norm, part in parts:
            x, normed = norm(x, y)
            y = part(normed)
        assert y is not None
        return x + y


def attend(q: Tensor, keys: Tensor, values: Tensor, seen: Seen) -> Tensor:
    """softmax(q keysᵀ + what is hidden) values as (b · w, h · d), of queries (b, h, w, d) that are scaled already and
    each see something. The fused kernel is made for many queries; for the few beams of many sentences two plain
    products are faster on several threads."""
    if isinstance(seen, Stretch):
        return kernels.attend(q, keys, values, seen.path, seen.first, seen.last)
    scores = DotScores(q, keys, _NOWHERE, 1.0, seen)
    if q.shape[2] == 1 or q.shape[2] > 16 or q.numel() <= _FEW:
        context = scores.attend(values)
    else:
        context = scores.apply(scores.weights(), values)
    return context.transpose(1, 2).reshape(q.shape[0] * q.shape[2], -1)


def gelu(x: Tensor) -> Tensor:
    """F.gelu. oneDNN's, which torch calls, costs 10 to 20 µs a call, more than the work itself for a row or two. What
    is switched off for it is so for all threads, so that only the first one does."""
    if x.numel() > _FEW or not torch.backends.mkldnn.enabled or current_thread() is not main_thread():
        return F.gelu(x)
    torch.backends.mkldnn.enabled = False
    try:
        return F.gelu(x)
    finally:
        torch.backends.mkldnn.enabled = True


def prepare(layers: Iterable[EncoderBlock | DecoderBlock], precision: str = "float32") -> list[Block] | None:
    """Blocks on dot attention and a plain feed-forward net; None where there is another."""
    layers = list(layers)
    if not all(_known(layer) for layer in layers):
        return None
    return [Block(layer, linear(precision)) for layer in layers]


def _known(block: EncoderBlock | DecoderBlock) -> bool:
    attentions = [block.attention, *([block.cross_attention] if isinstance(block, DecoderBlock) else [])]
    return type(block.feed) is FeedForward and all(
        type(a.mechanism) is DotMechanism and a.mechanism.key_width == a.mechanism.value_width for a in attentions
    )


def _dot(layer: MultiHeadAttention) -> QKV:
    assert isinstance(layer.mechanism, QKV)
    return layer.mechanism


def _feed(block: EncoderBlock | DecoderBlock) -> FeedForward:
    assert isinstance(block.feed, FeedForward)
    return block.feed


def _made(module: nn.Module, make: Make, relu: bool = False) -> Linear:
    return make(module.weight, module.bias, relu) if isinstance(module, nn.Linear) else module


def _scaled(weight: Tensor, bias: Tensor | None, n: int, scale: float) -> tuple[Tensor, Tensor | None]:
    """The first n rows, which make the queries, times the scale of the scores: no step has to multiply by it."""
    by = weight.new_ones(len(weight))
    by[:n] = scale
    return weight * by[:, None], None if bias is None else bias * by


Norm = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""x and y, or x alone, to their sum and its norm."""


class LayerNorm:
    """By the kernel, where there is one."""

    def __init__(self, norm: nn.LayerNorm):
        self.weight, self.eps = norm.weight.detach().clone(), norm.eps  # the model's may move
        self.bias = torch.zeros_like(self.weight) if norm.bias is None else norm.bias.detach().clone()
        self.native = kernels.ready(self.weight)

    def __call__(self, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.native and x.dtype is torch.float32:
            return kernels.add_norm(x, y, self.weight, self.bias, self.eps)
        whole = x if y is None else x + y
        return whole, torch.layer_norm(whole, self.weight.shape, self.weight, self.bias, self.eps)


def prepared_norm(norm: nn.Module) -> Norm:
    """The norm of a sum, of a layer norm without the way through a module."""
    if type(norm) is nn.LayerNorm and norm.weight is not None:
        return LayerNorm(norm)
    return lambda x, y: _both(x if y is None else x + y, norm)


def _both(whole: Tensor, norm: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    return whole, norm(whole)
