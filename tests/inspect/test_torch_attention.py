"""`record` and `edit` on torch.nn.MultiheadAttention and the Transformer layers that contain it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.errors import UserError
from regard.inspect import (
    ablate,
    attention_maps,
    count_heads,
    edit,
    find_attention_layers,
    mask_keys,
    prune,
    record,
    run_with_attention,
    uniform,
)

B, H, Q, K, DIM = 2, 3, 5, 7, 33


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def masks(kind: str) -> dict[str, Any]:
    padding = torch.zeros(B, K, dtype=torch.bool)
    padding[1, 5:] = True
    hidden = torch.zeros(Q, K, dtype=torch.bool)
    hidden[1, 2] = hidden[3, :4] = True
    additive = random(Q, K, seed=5).masked_fill(hidden, -torch.inf)
    per_head = random(B * H, Q, K, seed=6) > 1.0
    return {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "float padding": {"key_padding_mask": torch.zeros(B, K).masked_fill(padding, -torch.inf)},
        "bool": {"attn_mask": hidden},
        "float": {"attn_mask": additive},
        "per head": {"attn_mask": per_head},
        "both": {"attn_mask": hidden, "key_padding_mask": padding},
    }[kind]


KINDS = ("none", "padding", "float padding", "bool", "float", "per head", "both")
VARIANTS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"kdim": 13, "vdim": 11},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True},
]


def build(batch_first: bool = True, **options: Any) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(DIM, H, batch_first=batch_first, **options).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return layer


def inputs(layer: nn.MultiheadAttention) -> tuple[Tensor, Tensor, Tensor]:
    tensors = random(B, Q, DIM), random(B, K, layer.kdim, seed=1), random(B, K, layer.vdim, seed=2)
    return tensors if layer.batch_first else tuple(x.transpose(0, 1) for x in tensors)  # type: ignore[return-value]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_recorded_weights_equal_those_that_torch_returns(kind: str, batch_first: bool):
    layer = build(batch_first)
    args, mask = inputs(layer), masks(kind)
    expected_output, expected = layer(*args, need_weights=True, average_attn_weights=False, **mask)
    with torch.no_grad():
        output, attention = run_with_attention(layer, *args, need_weights=False, **mask)
    assert list(attention) == [""]  # the layer is the model itself
    torch.testing.assert_close(attention[""], expected.detach())
    torch.testing.assert_close(output[0], expected_output.detach())


@pytest.mark.parametrize("options", VARIANTS)
def test_all_variants_of_the_layer(options: dict[str, Any]):
    layer = build(**options)
    args, mask = inputs(layer), masks("both")
    _, expected = layer(*args, average_attn_weights=False, **mask)
    with record(layer) as recording:
        layer(*args, **mask)
    torch.testing.assert_close(recording[""], expected.detach())


@pytest.mark.parametrize("kind", KINDS)
def test_masked_keys_have_weight_zero_and_rows_sum_to_one(kind: str):
    layer = build()
    with record(layer) as recording:
        layer(*inputs(layer), **masks(kind))
    weights = recording[""]
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, Q))
    if "padding" in kind or kind == "both":
        assert float(weights[1, ..., 5:].abs().max()) == 0.0
    if kind in ("bool", "float", "both"):
        assert float(weights[:, :, 3, :4].abs().max()) == 0.0


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_applied_to_the_values_equal_the_output(kind: str, batch_first: bool):
    """An edit that changes nothing computes the output from the weights."""
    layer = build(batch_first)
    args, mask = inputs(layer), masks(kind)
    expected, expected_weights = layer(*args, **mask)
    with edit(layer, "", lambda weights, scores: weights):
        output, weights = layer(*args, **mask)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)


def test_a_causal_hint_gives_the_same_weights():
    layer, x = build(), random(B, Q, DIM)
    mask = nn.Transformer.generate_square_subsequent_mask(Q)
    with record(layer) as recording:
        layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
    assert float(recording[""].triu(1).abs().max()) == 0.0
    _, expected = layer(x, x, x, attn_mask=mask, average_attn_weights=False)
    torch.testing.assert_close(recording[""], expected.detach())


def test_an_input_without_a_batch():
    layer = build()
    query, key = random(Q, DIM), random(K, DIM, seed=1)
    expected_output, expected = layer(query, key, key, average_attn_weights=False)
    with edit(layer, "", lambda weights, scores: weights), record(layer) as recording:
        output, weights = layer(query, key, key, average_attn_weights=False)
    torch.testing.assert_close(recording[""][0], expected.detach())
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(output, expected_output)


def test_edits_change_the_output_as_expected():
    layer = build()
    args = inputs(layer)
    width = DIM // H
    with edit(layer, "", ablate([1])), record(layer) as recording:
        output = layer(*args)[0]
    assert float(recording[""][:, 1].abs().max()) == 0.0
    pruned = build()
    prune(pruned, "", [1])
    assert float(pruned.out_proj.weight.detach()[:, width : 2 * width].abs().max()) == 0.0
    torch.testing.assert_close(output, pruned(*args)[0])
    with edit(layer, "", uniform()), record(layer) as recording:
        layer(*args)
    torch.testing.assert_close(recording[""], torch.full((B, H, Q, K), 1 / K))
    padding = torch.zeros(B, K, dtype=torch.bool)
    padding[:, [2, 5]] = True
    with edit(layer, "", mask_keys([2, 5])):
        output = layer(*args)[0]
    torch.testing.assert_close(output, layer(*args, key_padding_mask=padding)[0])


def test_encoder_in_evaluation_mode_is_recorded_without_its_fast_path():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(DIM, H, 37, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x, padding = random(B, K, DIM), masks("padding")["key_padding_mask"]
    with torch.no_grad():
        fast = encoder(x, src_key_padding_mask=padding)
        output, attention = regard.run_with_attention(encoder, x, src_key_padding_mask=padding)
    assert list(attention) == ["layers.0.self_attn", "layers.1.self_attn"] == list(find_attention_layers(encoder))
    assert float(attention["layers.1.self_attn"][1, ..., 5:].abs().max()) == 0.0
    torch.testing.assert_close(output[~padding], fast[~padding], atol=1e-5, rtol=1e-4)
    first = encoder.layers[0].self_attn  # type: ignore[union-attr]
    _, expected = first(x, x, x, key_padding_mask=padding, average_attn_weights=False)  # type: ignore[operator]
    torch.testing.assert_close(attention["layers.0.self_attn"], expected.detach())
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("norm_first", [True, False])
def test_editing_an_encoder_in_evaluation_mode_changes_its_output(norm_first: bool):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(DIM, H, 37, batch_first=True, norm_first=norm_first).eval()
    x = random(B, K, DIM)
    with torch.no_grad():
        before = layer(x)
        with edit(layer, "self_attn", ablate()):
            after = layer(x)
        residual = x + layer.self_attn.out_proj.bias
        if norm_first:
            expected = residual + layer._ff_block(layer.norm2(residual))
        else:
            normed = layer.norm1(residual)
            expected = layer.norm2(normed + layer._ff_block(normed))
    torch.testing.assert_close(after, expected)
    assert not torch.allclose(before, after, atol=1e-3)


@pytest.mark.parametrize("batch_first", [True, False])
def test_decoder_has_self_attention_and_cross_attention(batch_first: bool):
    torch.manual_seed(0)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(DIM, H, 37, batch_first=batch_first), 2).eval()
    target, memory = random(B, Q, DIM), random(B, K, DIM, seed=1)
    if not batch_first:
        target, memory = target.transpose(0, 1), memory.transpose(0, 1)
    causal = nn.Transformer.generate_square_subsequent_mask(Q)
    with record(decoder) as recording:
        output = decoder(target, memory, tgt_mask=causal, tgt_is_causal=True)
    assert torch.equal(output, decoder(target, memory, tgt_mask=causal, tgt_is_causal=True))
    assert recording["layers.0.self_attn"].shape == (B, H, Q, Q)
    assert recording["layers.1.multihead_attn"].shape == (B, H, Q, K)
    assert float(recording["layers.1.self_attn"].triu(1).abs().max()) == 0.0
    maps = attention_maps(recording, 1, {})
    assert [m.weights.shape for m in maps] == [(H, Q, Q), (H, Q, K)] * 2
    assert count_heads(decoder, "layers.0.multihead_attn") == H


def test_nothing_is_left_on_the_model():
    encoder = nn.TransformerEncoderLayer(DIM, H, 37, dropout=0.5, batch_first=True)
    with pytest.raises(ZeroDivisionError), record(encoder), edit(encoder, "self_attn", uniform()):
        raise ZeroDivisionError
    assert encoder.training
    assert not any(module._forward_hooks for module in encoder.modules())
    assert torch.backends.mha.get_fastpath_enabled()


def test_unknown_layers_and_models_without_attention():
    encoder = nn.TransformerEncoderLayer(DIM, H, 37)
    with pytest.raises(UserError, match="did you mean 'self_attn'"), record(encoder, "self_atn"):
        pass
    with pytest.raises(UserError, match=r"no torch\.nn\.MultiheadAttention"):
        run_with_attention(nn.Linear(3, 3), torch.zeros(2, 3))
