"""Models that look at pictures, by formula: the eye, the grid, and what is said of it.

The places of a grid are what counts: a picture of m places is costed as one row of them, which takes as many products
as a square of as many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.theory.cost.language_formulas import fed
from regard.theory.cost.layer_formulas import Item, Items, decoder_block, encoder_block, linear, matrix, norm, own, pool


def _sight(module: Any, m: int) -> Items:
    eye = module.backbone
    places = m * eye.shrinks**2
    for i, stage in enumerate(eye.stages):
        places //= 4
        for j, part in enumerate(stage):
            outside, inside = part.weight.shape  # 9 or 16 · channels
            item = linear(f"eye.{i}.{j}", places, inside, outside, part.weight.numel())
            first = (i, j) == (0, 0)  # the picture gets no gradient
            yield replace(item, backward=item.flops if first else item.backward)
            yield Item(f"eye.{i}.{j}.norm", own(part.norm))
    yield matrix("eye.out", eye.out, m)
    yield Item("places of the grid", own(module.positions))
    for i, block in enumerate(module.layers):
        yield from encoder_block(f"grid.{i}", block, m)
    yield norm("grid.norm", module.norm)


def _image_classifier(model: Any, n: int, m: int) -> Items:
    yield from _sight(model.image_encoder, n)
    yield pool("pool", model.pool, n)
    yield matrix("head", model.head, 1)


def _captioner(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield from _sight(model.image_encoder, m)
    yield matrix("first state", model.first, 1)
    yield from fed(model.decoder, n, m)
    yield matrix("join", model.decoder.join, n)
    yield linear("head", n, dim, vocab, model.bias.numel())


def _caption_transformer(model: Any, n: int, m: int) -> Items:
    vocab, dim = model.embed.weight.shape
    yield Item("embeddings (tied with the head)", vocab * dim)
    yield Item("positions", own(model.positions))
    yield from _sight(model.image_encoder, m)
    for i, block in enumerate(model.decoder):
        yield from decoder_block(f"decoder.{i}", block, n, m)
    yield norm("last norm", model.decoder_norm)
    yield linear("head", n, dim, vocab, model.bias.numel())


SEERS: dict[str, Callable[[Any, int, int], Items]] = {
    "ImageClassifier": _image_classifier,
    "RNNCaptioner": _captioner,
    "TransformerCaptioner": _caption_transformer,
}
"""By the name of the class, so that a model is imported only where it is used."""
