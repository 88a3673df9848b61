"""Parameters and FLOPs of layers by formula, part by part: what a card is held against.

    forward    2 · n · in · out for a matrix on n places; two for each multiply-add
    backward   twice that, for the gradient of the input and of the matrix; fused attention computes its scores once
               more, half of what it compares again

Models are put together from these in `writers` (words) and `namers` (classes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.attention.mechanisms.additive import CHUNK, AdditiveMechanism
from regard.layers.attention_pooling import AttentionPooling
from regard.layers.bidirectional_rnn import BidirectionalRNN
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.layers.transformer_blocks import DecoderBlock, EncoderBlock, FeedForward
from regard.theory.cost.reference_layers import Convolution

GATES = {nn.RNN: 1, nn.GRU: 3, nn.LSTM: 4}
FUSED = ("dot", "bare", "local", "local-2d")
"""Mechanisms whose scores go through the fused kernel, as long as keys are as wide as values."""
UNPROJECTED = ("bilinear", "merged-qk")
"""And those whose keys are the memory itself."""


@dataclass(frozen=True)
class Item:
    """One part: params, FLOPs forward and backward, bytes of scores, steps one after the other, and the longest path
    between two places where the part joins places (0 where it treats each alone)."""

    name: str
    params: int = 0
    flops: int = 0
    backward: int = 0
    memory: int = 0
    steps: int = 0
    path: int = 0


Items = Iterator[Item]


def own(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def linear(name: str, n: int, inside: int, outside: int, params: int | None = None) -> Item:
    """A matrix applied at n places, with so many parameters (inside · outside + outside unless said)."""
    flops = 2 * n * inside * outside
    return Item(name, inside * outside + outside if params is None else params, flops, 2 * flops, steps=1)


def matrix(name: str, module: nn.Linear, n: int) -> Item:
    bias = module.out_features if module.bias is not None else 0
    params = module.in_features * module.out_features + bias
    return linear(name, n, module.in_features, module.out_features, params)


def norm(name: str, module: nn.Module) -> Item:
    width = getattr(module, "normalized_shape", (0,))[0]
    has = [p is not None for p in (getattr(module, "weight", None), getattr(module, "bias", None))]
    return Item(name, width * sum(has))


def attention(name: str, layer: MultiHeadAttention, n: int, m: int | None = None) -> Item:
    """By the mechanism's own card; positions that all layers share are an item of the model."""
    mechanism, m = layer.mechanism, n if m is None else m
    cost = layer.cost(n, m)
    backward = 2 * cost.flops - judged(mechanism, n, m)
    backward += fused(mechanism, n, m) // 2
    return Item(name, cost.params - own(mechanism.positions), cost.flops, backward, cost.memory, cost.steps, cost.path)


def fused(mechanism: Any, n: int, m: int) -> int:
    """FLOPs of scores and reading that go through the fused kernel."""
    width, values = getattr(mechanism, "key_width", None), mechanism.value_width
    if mechanism.positions.kind == "bias":
        return 0
    if mechanism.name in UNPROJECTED and mechanism.context_dim == values:
        return 4 * mechanism.heads * n * m * values
    if width != values or mechanism.name not in FUSED:
        return 0
    return mechanism.cost(n, m).flops - mechanism.projection_flops(n, m)


def judged(mechanism: Any, n: int, m: int) -> int:
    """What additive scores save on the way back where their pairs are made in chunks: slopes are summed and multiplied
    by v afterwards, so one product of two is left."""
    if not isinstance(mechanism, AdditiveMechanism) or 4 * mechanism.heads * mechanism.hidden * n * m <= CHUNK:
        return 0
    return 2 * mechanism.heads * n * m * mechanism.hidden


def feed(name: str, module: nn.Module, n: int) -> Items:
    if isinstance(module, FeedForward):
        yield matrix(f"{name}.up", module.up, n)
        yield matrix(f"{name}.down", module.down, n)
    else:
        for part, child in module.named_children():
            if isinstance(child, nn.Linear):
                yield matrix(f"{name}.{part}", child, n)


def _norms(name: str, *around: Any) -> Item:
    return Item(name, sum(norm("", one.norm).params for one in around))


def encoder_block(name: str, block: EncoderBlock, n: int) -> Items:
    yield attention(f"{name}.attention", block.attention, n)
    yield from feed(f"{name}.feed", block.ffn, n)
    yield _norms(f"{name}.norms", block.attention_residual, block.ffn_residual)


def decoder_block(name: str, block: DecoderBlock, n: int, m: int) -> Items:
    yield attention(f"{name}.attention", block.attention, n)
    yield attention(f"{name}.source", block.cross_attention, n, m)
    yield from feed(f"{name}.feed", block.ffn, n)
    yield _norms(f"{name}.norms", block.attention_residual, block.cross_attention_residual, block.ffn_residual)


def recurrent(name: str, module: nn.RNNBase, n: int, rows: int = 1, *, started: bool = False) -> Items:
    """n steps for each of so many rows; `started`: from a state that was computed, and so has a gradient."""
    gates = next(g for kind, g in GATES.items() if isinstance(module, kind))
    h, ways = module.hidden_size, 2 if module.bidirectional else 1
    for level in range(module.num_layers):
        inside = module.input_size if level == 0 else h * ways
        params = ways * gates * (h * (inside + h) + (2 * h if module.bias else 0))
        flops = 2 * ways * rows * n * gates * h * (inside + h)
        # A first state of zeros gets no gradient; the fused LSTM computes it all the same.
        spared = 0 if gates == 4 or started else 2 * ways * rows * gates * h * h
        name_ = f"{name}.{level}" if module.num_layers > 1 else name
        yield Item(name_, params, flops, 2 * flops - spared, 0, n, n)


def two_way(name: str, module: BidirectionalRNN, n: int, rows: int = 1) -> Items:
    yield from recurrent(f"{name}.onward", module.onward, n, rows)
    yield from recurrent(f"{name}.back", module.back, n, rows)


def pool(name: str, module: AttentionPooling, n: int, rows: int = 1) -> Item:
    cost = module.cost(n)
    return Item(name, cost.params, rows * cost.flops, 2 * rows * cost.flops, rows * cost.memory, 1, 1)


def convolution(name: str, module: nn.Conv1d, n: int, path: int) -> Item:
    (k,), c_in, c_out = module.kernel_size, module.in_channels, module.out_channels
    flops = 2 * n * k * c_in * c_out
    return Item(name, k * c_in * c_out + (c_out if module.bias is not None else 0), flops, 2 * flops, 0, 1, path)


def gated_layers(model: Any, n: int) -> Items:
    """The layers of a causal convolutional net, and the norm behind them."""
    reach = max(1, sum(layer.back for layer in model.layers))
    for i, layer in enumerate(model.layers):
        yield convolution(f"layers.{i}.filter", layer.filter, n, len(model.layers) * -(-(n - 1) // reach))
        yield matrix(f"layers.{i}.out", layer.out, n)
        yield norm(f"layers.{i}.norm", layer.norm)
    yield norm("norm", model.norm)


def layer_items(layer: nn.Module, n: int, m: int | None = None) -> list[Item] | None:
    """The parts of one layer; None where there is no formula."""
    if isinstance(layer, MultiHeadAttention):
        found = [attention("attention", layer, n, m)]
        place = own(layer.mechanism.positions)
        return [*found, Item("positions", place)] if place else found
    if isinstance(layer, nn.RNNBase):
        return list(recurrent(type(layer).__name__.lower(), layer, n))
    if isinstance(layer, Convolution):
        reach = layer.filter.kernel_size[0] - 1
        return [convolution("convolution", layer.filter, n, -(-(n - 1) // max(1, reach)))]
    if isinstance(layer, BidirectionalRNN):
        return list(two_way("read", layer, n))
    if isinstance(layer, AttentionPooling):
        return [pool("pool", layer, n)]
    if isinstance(layer, FeedForward):
        return list(feed("feed", layer, n))
    if isinstance(layer, EncoderBlock):
        return list(encoder_block("block", layer, n))
    return None
