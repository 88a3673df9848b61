"""Parameters and FLOPs of layers and models by formula, part by part: what a card is held against.

    forward    2 · n · in · out for a matrix on n places; two for each multiply-add
    backward   twice that, for the gradient of the input and of the matrix; fused attention computes its scores once
               more, half of what it compares again

A model without a formula here is counted only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.costing.yardsticks import Convolution
from regard.layers.blocks import DecoderBlock, EncoderBlock, FeedForward
from regard.layers.multihead import MultiHead
from regard.layers.pool import Pool
from regard.layers.recurrent import TwoWay

GATES = {nn.RNN: 1, nn.GRU: 3, nn.LSTM: 4}
FUSED = ("dot", "bare", "local", "local-2d")
"""Mechanisms whose scores go through the fused kernel, as long as keys are as wide as values."""


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


def _linear(name: str, module: nn.Linear, n: int) -> Item:
    bias = module.out_features if module.bias is not None else 0
    params = module.in_features * module.out_features + bias
    return linear(name, n, module.in_features, module.out_features, params)


def _norm(name: str, module: nn.Module) -> Item:
    width = getattr(module, "normalized_shape", (0,))[0]
    has = [p is not None for p in (getattr(module, "weight", None), getattr(module, "bias", None))]
    return Item(name, width * sum(has))


def attention(name: str, layer: MultiHead, n: int, m: int | None = None) -> Item:
    """By the mechanism's own card; positions that all layers share are an item of the model."""
    mechanism, m = layer.mechanism, n if m is None else m
    cost = layer.cost(n, m)
    backward = 2 * cost.flops
    width, values = getattr(mechanism, "key_width", None), mechanism.value_width
    if width is not None and width == values and mechanism.name in FUSED and mechanism.positions.kind != "bias":
        project = mechanism.projecting(n, m) if hasattr(mechanism, "projecting") else None  # type: ignore[operator]
        if project is None:
            project = 2 * mechanism.heads * (n * mechanism.dim * width + m * mechanism.memory_dim * (width + values))
        compare = mechanism.cost(n, m).flops - project
        backward += compare // 2
    return Item(name, cost.params - own(mechanism.positions), cost.flops, backward, cost.memory, cost.steps, cost.path)


def _feed(name: str, module: nn.Module, n: int) -> Items:
    if isinstance(module, FeedForward):
        yield _linear(f"{name}.up", module.up, n)
        yield _linear(f"{name}.down", module.down, n)
    else:
        for part, child in module.named_children():
            if isinstance(child, nn.Linear):
                yield _linear(f"{name}.{part}", child, n)


def _norms(name: str, *around: Any) -> Item:
    return Item(name, sum(_norm("", one.norm).params for one in around))


def _encoder_block(name: str, block: EncoderBlock, n: int) -> Items:
    yield attention(f"{name}.attention", block.attention, n)
    yield from _feed(f"{name}.feed", block.feed, n)
    yield _norms(f"{name}.norms", block.around_attention, block.around_feed)


def _decoder_block(name: str, block: DecoderBlock, n: int, m: int) -> Items:
    yield attention(f"{name}.attention", block.attention, n)
    yield attention(f"{name}.source", block.source, n, m)
    yield from _feed(f"{name}.feed", block.feed, n)
    yield _norms(f"{name}.norms", block.around_attention, block.around_source, block.around_feed)


def _recurrent(name: str, module: nn.RNNBase, n: int) -> Items:
    gates = next(g for kind, g in GATES.items() if isinstance(module, kind))
    h, ways = module.hidden_size, 2 if module.bidirectional else 1
    for level in range(module.num_layers):
        inside = module.input_size if level == 0 else h * ways
        params = ways * gates * (h * (inside + h) + (2 * h if module.bias else 0))
        flops = 2 * ways * n * gates * h * (inside + h)
        # The first state is given and gets no gradient; the fused LSTM computes it all the same.
        spared = 0 if gates == 4 else 2 * ways * gates * h * h
        name_ = f"{name}.{level}" if module.num_layers > 1 else name
        yield Item(name_, params, flops, 2 * flops - spared, 0, n, n)


def _two_way(name: str, module: TwoWay, n: int) -> Items:
    yield from _recurrent(f"{name}.onward", module.onward, n)
    yield from _recurrent(f"{name}.back", module.back, n)


def _pool(name: str, module: Pool, n: int) -> Item:
    cost = module.cost(n)
    return Item(name, cost.params, cost.flops, 2 * cost.flops, cost.memory, 1, 1)


def _convolution(name: str, module: nn.Conv1d, n: int, path: int) -> Item:
    (k,), c_in, c_out = module.kernel_size, module.in_channels, module.out_channels
    flops = 2 * n * k * c_in * c_out
    return Item(name, k * c_in * c_out + (c_out if module.bias is not None else 0), flops, 2 * flops, 0, 1, path)


def layer_items(layer: nn.Module, n: int, m: int | None = None) -> list[Item] | None:
    """The parts of one layer; None where there is no formula."""
    if isinstance(layer, MultiHead):
        found = [attention("attention", layer, n, m)]
        place = own(layer.mechanism.positions)
        return [*found, Item("positions", place)] if place else found
    if isinstance(layer, nn.RNNBase):
        return list(_recurrent(type(layer).__name__.lower(), layer, n))
    if isinstance(layer, Convolution):
        reach = layer.filter.kernel_size[0] - 1
        return [_convolution("convolution", layer.filter, n, -(-(n - 1) // max(1, reach)))]
    if isinstance(layer, TwoWay):
        return list(_two_way("read", layer, n))
    if isinstance(layer, Pool):
        return [_pool("pool", layer, n)]
    if isinstance(layer, FeedForward):
        return list(_feed("feed", layer, n))
    if isinstance(layer, EncoderBlock):
        return list(_encoder_block("block", layer, n))
    return None


def _gpt(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield Item("positions", own(model.positions))
    for i, block in enumerate(model.layers):
        yield from _encoder_block(f"layers.{i}", block, n)
    yield _norm("norm", model.norm)
    yield linear("head", n, dim, vocab, 0)


def _bert(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield Item("positions", own(model.positions))
    yield Item("segments", own(model.segments))
    yield _norm("norm", model.norm)
    for i, block in enumerate(model.layers):
        yield from _encoder_block(f"layers.{i}", block, n)
    yield _linear("word", model.word, n)
    yield _norm("word norm", model.word_norm)
    yield linear("head", n, dim, vocab, model.word_bias.numel())
    yield _linear("pooler", model.pooler, 1)
    yield _linear("next", model.next, 1)


def _transformer(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield Item("positions", own(model.positions))
    for i, block in enumerate(model.encoder):
        yield from _encoder_block(f"encoder.{i}", block, m)
    for i, block in enumerate(model.decoder):
        yield from _decoder_block(f"decoder.{i}", block, n, m)
    yield Item("last norms", own(model.encoder_norm) + own(model.decoder_norm))
    yield linear("head", n, dim, vocab, model.bias.numel())


def _encoder(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    yield Item("positions", own(model.positions))
    for i, block in enumerate(model.layers):
        yield from _encoder_block(f"layers.{i}", block, n)
    yield Item("norms", own(model.first_norm) + own(model.norm))
    yield _pool("pool", model.pool, n)
    yield _linear("head", model.head, 1)


def _bilstm(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    yield from _two_way("read", model.read, n)
    if hasattr(model.pool, "words"):
        yield _pool("pool", model.pool.words, n)
    yield _linear("head", model.head, 1)


def _self_attentive(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    yield from _two_way("read", model.read, n)
    yield _pool("pool", model.pool, n)
    yield _linear("features", model.features[0], 1)
    yield _linear("head", model.head, 1)
    if model.config.penalty:
        hops = model.config.hops
        yield Item("penalty", 0, 2 * hops * hops * n)


def _birnn(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield from _two_way("read", model.read, n)
    yield Item("start", model.start.numel())
    yield _linear("before", model.before, n)
    yield _linear("after", model.after, n)
    yield linear("head", n, dim, vocab, model.bias.numel())


def _language_cnn(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    for i, layer in enumerate(model.layers):
        n = -(-n // 2)
        width, dim, _ = layer.weight.shape
        item = linear(f"layers.{i}", n, width * dim, dim)
        yield Item(item.name, item.params, item.flops, item.backward, 0, 1, len(model.layers))
    yield _linear("head", model.head, 1)


def _causal_cnn(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    reach = max(1, model.sees - 1)
    for i, layer in enumerate(model.layers):
        yield _convolution(f"layers.{i}.filter", layer.filter, n, len(model.layers) * -(-(n - 1) // reach))
        yield _linear(f"layers.{i}.out", layer.out, n)
        yield _norm(f"layers.{i}.norm", layer.norm)
    yield _norm("norm", model.norm)
    yield linear("head", n, dim, vocab, 0)


MODELS: dict[str, Callable[[Any, int, int], Items]] = {
    "GPT": _gpt,
    "BERT": _bert,
    "Transformer": _transformer,
    "Encoder": _encoder,
    "BiLSTM": _bilstm,
    "SelfAttentive": _self_attentive,
    "BiRNN": _birnn,
    "LanguageCNN": _language_cnn,
    "CausalCNN": _causal_cnn,
}
"""By the name of the class, so that a model is imported only where it is used."""


def items(module: nn.Module, n: int, m: int | None = None) -> list[Item] | None:
    """The parts of a layer or a model on n places (m of a source); None where there is no formula."""
    found = MODELS.get(type(module).__name__)
    if found is None:
        return layer_items(module, n, m)
    return list(found(module, n, n if m is None else m))
