"""Optimized blocks compute the same as the blocks of the model, for texts and for beams."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.decoding.inplace_kv_cache import InPlaceKVCache
from regard.decoding.optimized_blocks import gelu, optimize_blocks
from regard.models import gpt, marian, t5, transformer

VOCAB, B, M = 31, 3, 7


def shaken(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return model.eval()


SIDES = {
    "marian": lambda: marian.Marian(VOCAB, marian.MarianConfig(42, 29, 2, 2, 3)),
    "transformer": lambda: transformer.Transformer(VOCAB, transformer.TransformerConfig(42, 29, 2, 2, 3)),
    "transformer, pre-norm": lambda: transformer.Transformer(
        VOCAB, transformer.TransformerConfig(42, 29, 2, 2, 3, norm="pre")
    ),
    "transformer, rotary": lambda: transformer.Transformer(
        VOCAB, transformer.TransformerConfig(42, 29, 2, 2, 3, positions="rotary")
    ),
}


def source(model) -> tuple[list[KVCache], Tensor]:
    """The source as each layer regards it, and what hides its padding."""
    mask = torch.arange(M) < torch.tensor([[M], [4], [5]])
    read = model.project_source(model.encode(torch.randint(6, VOCAB, (B, M)), mask=mask), mask=mask)
    return read, torch.zeros(B, 1, 1, M).masked_fill(~mask[:, None, None], -torch.inf)


def finish(model, x: Tensor) -> Tensor:
    return model.head(model.decoder_norm(x) if hasattr(model, "decoder_norm") else x)


@pytest.mark.parametrize("name", SIDES)
@torch.inference_mode()
def test_decoder_blocks_step_by_step(name: str):
    model = shaken(SIDES[name]())
    read, hidden = source(model)
    words = torch.randint(6, VOCAB, (B, 9))
    _logits, past = model.step(words[:, :2], None, read)
    blocks = optimize_blocks(model.decoder)
    assert blocks is not None
    caches = [InPlaceKVCache(memory, 20) for memory in past]
    for i in range(2, 9):
        wanted, past = model.step(words[:, i : i + 1], past, read)
        position_ids = range(i, i + 1)
        x = model.embed_tokens(words[:, i : i + 1], position_ids).flatten(0, 1)
        for block, cache, memory in zip(blocks, caches, read, strict=True):
            x = block(x, cache, memory, position_ids=position_ids, source_visible=hidden)
        torch.testing.assert_close(finish(model, x), wanted[:, 0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", SIDES)
@torch.inference_mode()
def test_beams_see_their_own_past_only(name: str):
    """Beams of a sentence share its row: what a beam may see is a bias, and no cache is ever reordered."""
    model, w = shaken(SIDES[name]()), 4
    read, hidden = source(model)
    blocks = optimize_blocks(model.decoder)
    assert blocks is not None
    start = torch.randint(6, VOCAB, (B, 1))
    _, past = model.step(start, None, read)
    caches = [InPlaceKVCache(memory, 20) for memory in past]
    seen = torch.ones(B, w, 1, dtype=torch.bool)  # all come from the one first word
    texts = start[:, None].expand(B, w, 1)
    for i in range(1, 5):
        parents = torch.randint(w, (B, w))
        words = torch.randint(6, VOCAB, (B, w))
        seen = seen.gather(1, parents[..., None].expand_as(seen))
        texts = torch.cat((texts.gather(1, parents[..., None].expand_as(texts)), words[..., None]), 2)
        seen = torch.cat((seen, torch.eye(w, dtype=torch.bool).expand(B, w, w)), 2)
        bias = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)[:, None]
        position_ids = range(i, i + 1)
        x = model.embed_tokens(words.flatten()[:, None], position_ids).flatten(0, 1)
        for block, cache, memory in zip(blocks, caches, read, strict=True):
            x = block(x, cache, memory, position_ids=position_ids, visible=bias, source_visible=hidden)
        found = finish(model, x).view(B, w, -1)
        for beam in range(w):
            wanted = model.decode(texts[:, beam], read)[:, -1]
            torch.testing.assert_close(found[:, beam], wanted, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_select_rows_in_any_order_and_repeatedly():
    keys, values = torch.randn(3, 2, 4, 5), torch.randn(3, 2, 4, 5)
    cache = InPlaceKVCache(KVCache(keys, values, range(4)), 3)
    cache.select(torch.tensor([2, 0, 2, 1]))
    new = torch.randn(4, 2, 1, 5)
    got_keys, got_values = cache.extend(torch.stack((new, -new)))
    assert torch.equal(got_keys, torch.cat((keys[[2, 0, 2, 1]], new), 2))
    assert torch.equal(got_values, torch.cat((values[[2, 0, 2, 1]], -new), 2))


def test_unsupported_blocks_are_not_optimized():
    assert optimize_blocks(gpt.GPT(VOCAB, gpt.GPTConfig(42, 2, 3, mechanism="additive")).layers) is None
    assert optimize_blocks(t5.T5(VOCAB, t5.T5Config(42, 29, 2, 1, 3, 5, gated_ffn=True)).decoder) is None


@pytest.mark.parametrize("precision", ["float32", "float16"])
@torch.inference_mode()
def test_converted_linear_equals_the_layer(precision: str):
    from regard.decoding.quantized_linear import linear_factory

    layer = nn.Linear(45, 37)
    x = torch.randn(3, 45)
    atol = {"float32": 1e-6, "float16": 3e-3}[precision]
    torch.testing.assert_close(linear_factory(precision)(layer.weight, layer.bias)(x), layer(x), atol=atol, rtol=1e-4)
    without = nn.functional.linear(x, layer.weight)
    torch.testing.assert_close(linear_factory(precision)(layer.weight, None)(x), without, atol=atol, rtol=1e-4)


def test_gelu_is_correct_and_restores_onednn():
    for rows in (1, 3, 100):
        x = torch.randn(rows, 1024)
        torch.testing.assert_close(gelu(x), nn.functional.gelu(x))
        assert torch.backends.mkldnn.enabled
