"""Transformer blocks optimized for decoding.

The weights are plain tensors, queries, keys and values are one product, and KV caches are written in place. A step
calls no module and builds no mask.

    blocks = optimize_blocks(model.layers, "float32")                   # None if a block is not supported
    for block, cache in zip(blocks, caches):
        x = block(x, cache, visible=visible, position_ids=position_ids)

x is (b · w, dim): w new tokens in each of b rows. w = 1 is a step of a text. The w beams of a sentence are w tokens at
the same position, each of which sees its own past only; so the cache is never reordered, and the source (b, h, m, d) is
shared by the beams of its row. If an int b is given for the cache, all tokens are new and see each other, as in an
encoder. The parts between the products are computed by regard.kernels, or by torch where that is not available.
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
from regard.attention.mechanisms.qkv_projection import QKVMechanism
from regard.attention.scores import DotScores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.decoding.inplace_kv_cache import InPlaceKVCache
from regard.decoding.quantized_linear import Linear, LinearFactory, linear_factory
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, PreNorm

_NO_POSITIONS = QueryKeyPositions(range(0), range(0))
"""Positions are in the bias of a step already."""

_SMALL = 8192
"""Number of elements up to which the overhead of a call is greater than its work."""


@dataclass(frozen=True)
class KeyRange:
    """The keys that each query sees, for the kernels.

    Args:
        path: Key indices of each query, (b, w, n) int32; None: all keys.
        first, last: Restrict the path (or the keys) to first <= index < last, each (b,) int32.
    """

    path: Tensor | None = None
    first: Tensor | None = None
    last: Tensor | None = None


VisibleKeys = KeyRange | Tensor | None
"""A key range; a bias that is added to the scores (b or 1, h or 1, w or 1, k), -inf for masked keys; None: all keys."""


class OptimizedSelfAttention:
    """Self-attention of new tokens to the cache and to themselves, or without a cache to each other."""

    def __init__(self, layer: MultiHeadAttention, make_linear: LinearFactory):
        m = _get_qkv(layer)
        assert m.qkv is not None
        self.heads, self.width, n = m.heads, m.key_width, m.qkv.widths[0]
        self.qkv, self.out = (
            make_linear(*_scale_queries(m.qkv.weight, m.qkv.bias, n, m.scale)),
            _convert_linear(layer.out, make_linear),
        )
        self.rotate = m.positions.rotate if m.positions.kind == "rotate" else None

    def __call__(
        self, x: Tensor, b: int, cache: InPlaceKVCache | None, visible: VisibleKeys, position_ids: PositionIds
    ) -> Tensor:
        projected = self.qkv(x)
        if self.rotate is None and cache is not None and isinstance(visible, KeyRange):
            start = cache.reserve(len(projected) // b)
            return self.out(kernels.append_and_attend(projected, cache.keys_values, start, visible.path, visible.first))
        qkv = projected.view(b, -1, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        if self.rotate is not None:
            qkv = torch.cat((self.rotate(qkv[:2].flatten(0, 1), position_ids).unflatten(0, (2, b)), qkv[2:]))
        keys, values = qkv[1:] if cache is None else cache.extend(qkv[1:])
        return self.out(attend(qkv[0], keys, values, visible))


class OptimizedCrossAttention:
    """Attention to a source that was projected before."""

    def __init__(self, layer: MultiHeadAttention, make_linear: LinearFactory):
        m = _get_qkv(layer)
        self.heads, self.width = m.heads, m.key_width
        if m.qkv is None:
            weight, bias, self.key_value = m.q.weight, m.q.bias, make_linear(m.kv.weight, m.kv.bias)
        else:
            n, packed_weight, packed_bias = m.qkv.widths[0], m.qkv.weight, m.qkv.bias
            weight, bias = packed_weight[:n], None if packed_bias is None else packed_bias[:n]
            self.key_value = make_linear(packed_weight[n:], None if packed_bias is None else packed_bias[n:])
        self.query = make_linear(*_scale_queries(weight, bias, len(weight), m.scale))
        self.out = _convert_linear(layer.out, make_linear)

    def project_source(self, x: Tensor, b: int) -> KVCache:
        """The keys and values of a source (b · m, dim), computed once for all steps."""
        keys, values = self.key_value(x).view(b, -1, 2, self.heads, self.width).permute(2, 0, 3, 1, 4).contiguous()
        return KVCache(keys, values, range(keys.shape[2]))

    def __call__(self, x: Tensor, b: int, source: KVCache, visible: VisibleKeys) -> Tensor:
        q = self.query(x).view(b, -1, self.heads, self.width).transpose(1, 2)
        return self.out(attend(q, source.keys, source.values, visible))


class OptimizedFeedForward:
    """The position-wise feed-forward network."""

    def __init__(self, ffn: FeedForward, make_linear: LinearFactory):
        fused = ffn.activation is F.relu and isinstance(ffn.up, nn.Linear)
        self.up, self.down = _convert_linear(ffn.up, make_linear, relu=fused), _convert_linear(ffn.down, make_linear)
        self.activation = None if fused else gelu if ffn.activation is F.gelu else ffn.activation

    def __call__(self, x: Tensor) -> Tensor:
        x = self.up(x)
        return self.down(x if self.activation is None else self.activation(x))


class OptimizedBlock:
    """An `EncoderBlock` (of a GPT) or a `DecoderBlock`, with norms before or after each part."""

    def __init__(self, block: EncoderBlock | DecoderBlock, make_linear: LinearFactory):
        self.pre_norm = isinstance(block.attention_residual, PreNorm)
        self.self_attention, self.ffn = (
            OptimizedSelfAttention(block.attention, make_linear),
            OptimizedFeedForward(_get_ffn(block), make_linear),
        )
        self.self_attention_norm = build_norm(block.attention_residual.norm)
        self.ffn_norm = build_norm(block.ffn_residual.norm)
        self.cross_attention: OptimizedCrossAttention | None = None
        if isinstance(block, DecoderBlock):
            self.cross_attention, self.cross_attention_norm = (
                OptimizedCrossAttention(block.cross_attention, make_linear),
                build_norm(block.cross_attention_residual.norm),
            )

    def __call__(
        self,
        x: Tensor,
        cache: InPlaceKVCache | int,
        source: KVCache | None = None,
        *,
        position_ids: PositionIds,
        visible: VisibleKeys = None,
        source_visible: VisibleKeys = None,
    ) -> Tensor:
        b, kv_cache = (cache, None) if isinstance(cache, int) else (cache.keys_values.shape[1], cache)
        parts: list[tuple[AddNorm, Linear]] = [
            (self.self_attention_norm, lambda x: self.self_attention(x, b, kv_cache, visible, position_ids))
        ]
        if (cross_attention := self.cross_attention) is not None and source is not None:
            parts.append((self.cross_attention_norm, lambda x: cross_attention(x, b, source, source_visible)))
        parts.append((self.ffn_norm, self.ffn))
        if not self.pre_norm:
            for norm, part in parts:
                x = norm(part(x), x)[1]
            return x
        y = None
        for norm, part in parts:
            x, normed = norm(x, y)
            y = part(normed)
        assert y is not None
        return x + y


def attend(q: Tensor, keys: Tensor, values: Tensor, visible: VisibleKeys) -> Tensor:
    """softmax(q keysᵀ + bias) values, for queries (b, h, w, d) that are scaled already and see at least one key.

    The fused kernel is made for many queries. For the few beams of many sentences two plain products are faster on
    several threads.

    Returns:
        (b · w, h · d).
    """
    if isinstance(visible, KeyRange):
        return kernels.attend(q, keys, values, visible.path, visible.first, visible.last)
    scores = DotScores(q, keys, _NO_POSITIONS, 1.0, visible)
    if q.shape[2] == 1 or q.shape[2] > 16 or q.numel() <= _SMALL:
        context = scores.attend(values)
    else:
        context = scores.apply(scores.weights(), values)
    return context.transpose(1, 2).reshape(q.shape[0] * q.shape[2], -1)


def gelu(x: Tensor) -> Tensor:
    """F.gelu, without oneDNN for small inputs. It costs 10 to 20 µs per call, more than the work for one or two rows.

    The switch affects all threads, so only the main thread uses it.
    """
    if x.numel() > _SMALL or not torch.backends.mkldnn.enabled or current_thread() is not main_thread():
        return F.gelu(x)
    torch.backends.mkldnn.enabled = False
    try:
        return F.gelu(x)
    finally:
        torch.backends.mkldnn.enabled = True


def optimize_blocks(
    layers: Iterable[EncoderBlock | DecoderBlock], precision: str = "float32"
) -> list[OptimizedBlock] | None:
    """The blocks in optimized form; None if one has no dot attention or another feed-forward network."""
    layers = list(layers)
    if not all(_is_supported(layer) for layer in layers):
        return None
    return [OptimizedBlock(layer, linear_factory(precision)) for layer in layers]


def _is_supported(block: EncoderBlock | DecoderBlock) -> bool:
    attentions = [block.attention, *([block.cross_attention] if isinstance(block, DecoderBlock) else [])]
    return type(block.ffn) is FeedForward and all(
        type(a.mechanism) is DotMechanism and a.mechanism.key_width == a.mechanism.value_width for a in attentions
    )


def _get_qkv(layer: MultiHeadAttention) -> QKVMechanism:
    assert isinstance(layer.mechanism, QKVMechanism)
    return layer.mechanism


def _get_ffn(block: EncoderBlock | DecoderBlock) -> FeedForward:
    assert isinstance(block.ffn, FeedForward)
    return block.ffn


def _convert_linear(module: nn.Module, make_linear: LinearFactory, relu: bool = False) -> Linear:
    return make_linear(module.weight, module.bias, relu) if isinstance(module, nn.Linear) else module


def _scale_queries(weight: Tensor, bias: Tensor | None, n: int, scale: float) -> tuple[Tensor, Tensor | None]:
    """Multiply the first n rows, which compute the queries, by the scale of the scores."""
    factors = weight.new_ones(len(weight))
    factors[:n] = scale
    return weight * factors[:, None], None if bias is None else bias * factors


AddNorm = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""Maps x and y (or None) to their sum and its norm."""


class KernelLayerNorm:
    """Layer norm of a sum, by the kernel if it is available."""

    def __init__(self, norm: nn.LayerNorm):
        self.weight, self.eps = norm.weight.detach().clone(), norm.eps  # the model may be moved
        self.bias = torch.zeros_like(self.weight) if norm.bias is None else norm.bias.detach().clone()
        self.native = kernels.can_use_kernels(self.weight)

    def __call__(self, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.native and x.dtype is torch.float32:
            return kernels.add_norm(x, y, self.weight, self.bias, self.eps)
        total = x if y is None else x + y
        return total, torch.layer_norm(total, self.weight.shape, self.weight, self.bias, self.eps)


def build_norm(norm: nn.Module) -> AddNorm:
    """The norm of a sum."""
    if type(norm) is nn.LayerNorm and norm.weight is not None:
        return KernelLayerNorm(norm)

    def add_and_normalize(x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor]:
        total = x if y is None else x + y
        return total, norm(total)

    return add_and_normalize
