"""Models that name a class, or a place of the text, by formula: put together from the layers of `formulas`.

Models that read by sentences are costed on sentences of SENTENCE words, the last of them shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.theory.cost.layer_formulas import (
    Item,
    Items,
    convolution,
    encoder_block,
    gated_layers,
    linear,
    matrix,
    norm,
    own,
    pool,
    two_way,
)

SENTENCE = 20
"""Words of a sentence."""


def _encoder(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    yield Item("positions", own(model.positions))
    for i, block in enumerate(model.layers):
        yield from encoder_block(f"layers.{i}", block, n)
    yield Item("norms", own(model.first_norm) + own(model.norm))
    yield pool("pool", model.pool, n)
    yield matrix("head", model.head, 1)


def _bilstm(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    yield from two_way("read", model.read, n)
    if hasattr(model.pool, "words"):
        yield pool("pool", model.pool.words, n)
    yield matrix("head", model.head, 1)


def _self_attentive(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    yield from two_way("read", model.read, n)
    yield pool("pool", model.pool, n)
    yield matrix("features", model.features[0], 1)
    yield matrix("head", model.head, 1)
    if model.config.penalty:
        hops = model.config.hops
        yield Item("penalty", 0, 2 * hops * hops * n)


def _language_cnn(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    for i, layer in enumerate(model.layers):
        n = -(-n // 2)
        width, dim, _ = layer.weight.shape
        item = linear(f"layers.{i}", n, width * dim, dim)
        yield Item(item.name, item.params, item.flops, item.backward, 0, 1, len(model.layers))
    yield matrix("head", model.head, 1)


def _kim_cnn(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    for window in model.windows:
        wide = window.kernel_size[0]  # windows may hang over either end
        yield convolution(f"windows of {wide}", window, n + wide - 1, 1)
    yield matrix("head", model.head, 1)


def _gated_cnn(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    yield from gated_layers(model, n)
    yield pool("pool", model.pool, n)
    yield matrix("head", model.head, 1)


def _ngram_attention(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", model.embedding.weight.numel())
    yield Item("n-grams", own(model.ngrams))
    yield pool("pool", model.pool, n)
    yield matrix("head", model.head, 1)
    yield linear("trust", model.head.out_features, model.trust.numel(), 1, model.trust.numel())


def _han(model: Any, n: int, m: int) -> Items:
    sentences = -(-n // SENTENCE)
    words = min(n, SENTENCE)  # the last sentence is padded to the others
    yield Item("embeddings", model.embedding.weight.numel())
    if model.ngrams is not None:
        yield Item("n-grams", own(model.ngrams))
    if model.word_shape is not None:
        yield Item("word shape", model.word_shape.weight.numel())
    yield from two_way("words", model.read_words, words, sentences)
    yield pool("word attention", model.words, words, sentences)
    yield from two_way("sentences", model.read_sentences, sentences)
    yield pool("sentence attention", model.sentences, sentences)
    yield matrix("head", model.head, 1)


def _context_han(model: Any, n: int, m: int) -> Items:
    sentences = -(-n // SENTENCE)
    yield Item("embeddings", model.embedding.weight.numel())
    yield from two_way("words", model.read_words, min(n, SENTENCE), sentences)
    yield from _context_pool("onward", model.onward, n, sentences)
    yield from _context_pool("back", model.back, n, sentences)
    yield from two_way("sentences", model.read_sentences, sentences)
    yield pool("sentence attention", model.sentences, sentences)
    yield matrix("head", model.head, 1)


def _context_pool(name: str, module: Any, n: int, sentences: int) -> Items:
    """All words are projected at once, contexts sentence after sentence; the first is zero and has no gradient."""
    yield matrix(f"{name}.word", module.word, n)
    yield matrix(f"{name}.gate_word", module.gate_word, n)
    for part in ("context", "gate_context"):
        item = matrix(f"{name}.{part}", getattr(module, part), sentences)
        yield replace(item, backward=item.backward - item.flops // sentences, steps=sentences, path=sentences)
    yield matrix(f"{name}.score", module.score, n)
    yield linear(f"{name}.read", n, module.word.in_features, 1, 0)


def _pointer(model: Any, n: int, m: int) -> Items:
    yield Item("embeddings", own(model.embed) + own(model.shape) + own(model.own))
    yield Item("positions", own(model.positions))
    for i, block in enumerate(model.layers):
        yield from encoder_block(f"layers.{i}", block, n)
    yield norm("norm", model.norm)
    point = pool("point", model.point, n)
    read = 2 * n * model.point.context.out_features * model.point.project.in_features
    yield replace(point, backward=point.backward - 2 * read)  # what is pointed at is the answer, not what stands there


def _committee(model: Any, n: int, m: int) -> Items:
    for i, member in enumerate(model.members):
        for item in NAMERS[type(member).__name__](member, n, m):
            yield replace(item, name=f"members.{i}.{item.name}")


NAMERS: dict[str, Callable[[Any, int, int], Items]] = {
    "TransformerClassifier": _encoder,
    "BiLSTM": _bilstm,
    "SelfAttentive": _self_attentive,
    "StridedCNN": _language_cnn,
    "KimCNN": _kim_cnn,
    "GatedCNN": _gated_cnn,
    "NGramAttention": _ngram_attention,
    "HAN": _han,
    "ContextHAN": _context_han,
    "SpanReader": _pointer,
    "Ensemble": _committee,
}
"""By the name of the class, so that a model is imported only where it is used."""
