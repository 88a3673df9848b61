"""Models that say words, by formula: language models and translators, put together from the layers of `formulas`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.theory.cost.layer_formulas import (
    Item,
    Items,
    attention,
    decoder_block,
    encoder_block,
    gated_layers,
    linear,
    matrix,
    norm,
    own,
    recurrent,
    two_way,
)


def _gpt(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield Item("positions", own(model.positions))
    for i, block in enumerate(model.layers):
        yield from encoder_block(f"layers.{i}", block, n)
    yield norm("norm", model.norm)
    yield linear("head", n, dim, vocab, 0)


def _ngram_gpt(model: Any, n: int, m: int) -> Items:
    yield Item("n-grams", own(model.ngrams))
    if model.adaptive is None:
        yield from _gpt(model, n, m)
        return
    *rest, _ = _gpt(model, n, m)
    yield from rest
    yield matrix("frequent words and groups", model.adaptive.head, n)
    for i, (down, up) in enumerate(model.adaptive.tail):
        yield matrix(f"group {i + 1}: narrower", down, n)
        yield matrix(f"group {i + 1}: words", up, n)


def _bert(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield Item("positions", own(model.positions))
    yield Item("segments", own(model.segments))
    yield norm("norm", model.norm)
    for i, block in enumerate(model.layers):
        yield from encoder_block(f"layers.{i}", block, n)
    yield matrix("word", model.word, n)
    yield norm("word norm", model.word_norm)
    yield linear("head", n, dim, vocab, model.word_bias.numel())
    yield matrix("pooler", model.pooler, 1)
    yield matrix("next", model.next, 1)


def _blocks(model: Any, n: int, m: int) -> Items:
    for i, block in enumerate(model.encoder):
        yield from encoder_block(f"encoder.{i}", block, m)
    for i, block in enumerate(model.decoder):
        yield from decoder_block(f"decoder.{i}", block, n, m)


def _transformer(model: Any, n: int, m: int) -> Items:
    yield from _marian(model, n, m)
    yield Item("last norms", own(model.encoder_norm) + own(model.decoder_norm))


def _marian(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield Item("positions", own(model.positions))
    yield from _blocks(model, n, m)
    yield linear("head", n, dim, vocab, model.bias.numel())


def _t5(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    tied = model.out is model.embed
    yield Item("embeddings (tied with the head)" if tied else "embeddings", vocab * dim)
    yield Item("positions", own(model.encoder_positions) + own(model.decoder_positions))
    yield from _blocks(model, n, m)
    yield Item("last norms", own(model.encoder_norm) + own(model.decoder_norm))
    yield linear("head", n, dim, vocab, 0 if tied else vocab * dim)


def _rnn_translator(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    decoder = model.decoder
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield from two_way("encoder", model.read_both, m)
    yield matrix("first state", model.first, 1)
    yield from (fed if hasattr(decoder, "cells") else _plain)(decoder, n, m)
    yield matrix("join", decoder.join, n)
    yield linear("head", n, dim, vocab, model.bias.numel())


def _plain(decoder: Any, n: int, m: int) -> Items:
    yield from recurrent("decoder", decoder.cell, n, started=True)
    yield attention("attention", decoder.attention, n, m)


def fed(decoder: Any, n: int, m: int) -> Items:
    """Step by step: the source is read once, and regarded n times by one query."""
    for i, cell in enumerate(decoder.cells):
        rows, width = cell.weight_ih.shape
        item = linear(f"decoder.{i}", n, width + cell.hidden_size, rows, own(cell))
        yield Item(item.name, item.params, item.flops, item.backward, 0, n, n)
    none, one = attention("attention", decoder.attention, 0, m), attention("attention", decoder.attention, 1, m)
    flops = none.flops + n * (one.flops - none.flops)
    backward = none.backward + n * (one.backward - none.backward)
    yield Item(one.name, one.params, flops, backward, n * one.memory, n, one.path)


def _birnn(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    if model.subwords is not None:
        yield Item("subwords", own(model.subwords))
    yield from two_way("read", model.read, n)
    yield Item("start", model.start.numel())
    yield matrix("before", model.before, n)
    yield matrix("after", model.after, n)
    yield linear("head", n, dim, vocab, model.bias.numel())


def _causal_cnn(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield from gated_layers(model, n)
    yield linear("head", n, dim, vocab, 0)


WRITERS: dict[str, Callable[[Any, int, int], Items]] = {
    "GPT": _gpt,
    "NGramGPT": _ngram_gpt,
    "BERT": _bert,
    "PreLNBERT": _bert,
    "BiRNN": _birnn,
    "CausalCNN": _causal_cnn,
    "Transformer": _transformer,
    "Marian": _marian,
    "T5": _t5,
    "RNNTranslator": _rnn_translator,
}
"""By the name of the class, so that a model is imported only where it is used."""
