"""MultiHeadAttention by hand, against torch.nn.MultiheadAttention, and its error messages."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch_parity import CAUSAL, DIM, HEADS, KEY_MASK, B, M, N, assert_same, copy_attention, random_inputs

from regard.attention.mechanisms import MECHANISMS
from regard.attention.mechanisms.dot import DotMechanism
from regard.attention.positions import POSITIONS
from regard.errors import UserError
from regard.inspect import record
from regard.layers import MultiHeadAttention

LN2, LN3 = math.log(2), math.log(3)

PATTERN = torch.rand(N, N, generator=torch.Generator().manual_seed(2)) < 0.5
PATTERN.fill_diagonal_(True)


def with_identity_projections(layer: MultiHeadAttention) -> MultiHeadAttention:
    """Queries, keys and values are the inputs themselves."""
    dim = layer.mechanism.dim
    with torch.no_grad():
        layer.mechanism.qkv.weight.copy_(torch.eye(dim).repeat(3, 1))
        layer.out.weight.copy_(torch.eye(dim))
        for p in (layer.mechanism.qkv.bias, layer.out.bias):
            p.zero_()
    return layer


def test_a_layer_by_hand():
    """One head of width 1: x = (0, ln 2), so the logits of the second query are 0 and (ln 2)²."""
    layer = with_identity_projections(MultiHeadAttention(1, 1)).eval()
    x = torch.tensor([0.0, LN2]).view(1, 2, 1)
    odds = math.exp(LN2**2)
    with torch.no_grad():
        assert torch.allclose(layer(x)[0, :, 0], torch.tensor([LN2 / 2, LN2 * odds / (1 + odds)]))
        assert torch.allclose(layer(x, causal=True)[0, :, 0], torch.tensor([0.0, LN2 * odds / (1 + odds)]))


def test_each_head_uses_its_own_part_of_the_width():
    layer = with_identity_projections(MultiHeadAttention(2, 2)).eval()
    x = torch.tensor([[0.0, LN3], [1.0, 0.0]]).view(1, 2, 2)
    with torch.no_grad():
        out = layer(x)[0]
    odds, e = math.exp(LN3**2), math.e
    assert out[0].tolist() == pytest.approx([0.5, LN3 * odds / (1 + odds)])  # head 1: logits 0, 0; head 2: (ln 3)², 0
    assert out[1].tolist() == pytest.approx([e / (1 + e), LN3 / 2])  # head 1: logits 0, 1; head 2: 0, 0


def build_pair(**options) -> tuple[nn.MultiheadAttention, MultiHeadAttention]:
    """Torch's layer and ours with the same weights."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True, **options).double()
    ours = MultiHeadAttention(DIM, HEADS, context_dim=options.get("kdim")).double()
    copy_attention(theirs, ours)
    return theirs, ours


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    ("our_masks", "their_masks"),  # True means "may not attend" in torch.nn
    [
        ({}, {}),
        ({"key_mask": KEY_MASK}, {"key_padding_mask": ~KEY_MASK}),
        ({"causal": True}, {"attn_mask": ~CAUSAL}),
        ({"attn_mask": PATTERN}, {"attn_mask": ~PATTERN}),
        ({"attn_mask": PATTERN.expand(B, N, N)}, {"attn_mask": ~PATTERN}),
        ({"key_mask": KEY_MASK, "attn_mask": PATTERN}, {"key_padding_mask": ~KEY_MASK, "attn_mask": ~PATTERN}),
    ],
    ids=["none", "padding", "causal", "pattern", "pattern for each row", "padding and pattern"],
)
def test_self_attention_equals_torch(our_masks: dict, their_masks: dict, train: bool):
    theirs, ours = build_pair()
    theirs.train(train), ours.train(train)
    x, _ = random_inputs()
    expected, weights = theirs(x, x, x, average_attn_weights=False, **their_masks)
    out = ours(x, **our_masks)
    queries = our_masks.get("key_mask", torch.ones_like(KEY_MASK))
    assert_same(expected[queries], out[queries], [x])
    with record(ours) as recording:
        ours(x, **our_masks)
    rows, actual = queries[:, None, :, None].expand_as(weights), recording["attend"]
    torch.testing.assert_close(actual[rows], weights[rows].to(actual.dtype), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("width", [DIM, 17])
def test_cross_attention_equals_torch_at_any_width(width: int):
    theirs, ours = build_pair(**({} if width == DIM else {"kdim": width, "vdim": width}))
    x, context = random_inputs(width)
    key_mask = torch.arange(M) < torch.tensor([[9], [M]])
    assert_same(theirs(x, context, context, need_weights=False)[0], ours(x, context), [x, context])
    expected = theirs(x, context, context, key_padding_mask=~key_mask, need_weights=False)[0]
    assert_same(expected, ours(x, context, key_mask=key_mask), [x, context])
    expected = theirs(x, context, context, key_padding_mask=~key_mask)[0]
    assert_same(expected, ours(x, ours.project_kv(context, key_mask=key_mask)), [x, context])


def test_recorded_weights_equal_those_of_torch():
    theirs, ours = build_pair()
    x, context = random_inputs()
    _, expected = theirs(x, context, context, average_attn_weights=False)
    with record(ours) as recording:
        ours(x, context)
    assert torch.allclose(recording["attend"], expected, atol=1e-12)


def test_heads_that_do_not_divide_the_width_are_an_error_with_a_number_that_does():
    with pytest.raises(UserError, match=r"heads=5 does not divide dim=12; use heads=[46]"):
        MultiHeadAttention(12, 5)


def test_unknown_names_and_options_are_errors_with_the_nearest():
    with pytest.raises(
        UserError, match=r"unknown mechanism 'dott'; did you mean 'dot'\? known: additive, bare, .*, dot, local"
    ):
        MultiHeadAttention(12, 3, "dott")
    with pytest.raises(UserError, match=r"no option 'key_widht'; did you mean 'key_width'\? known: key_width"):
        MultiHeadAttention(12, 3, "dot:key_widht=3")
    with pytest.raises(UserError, match="no option 'window'"):
        MultiHeadAttention(12, 3, "dot", window=3)
    with pytest.raises(UserError, match="unknown positions 'sinusoida'; did you mean 'sinusoidal'"):
        MultiHeadAttention(12, 3, positions="sinusoida")


def test_a_mechanism_object_takes_no_further_options():
    mechanism = DotMechanism(12, 3)
    assert MultiHeadAttention(12, 3, mechanism).mechanism is mechanism
    with pytest.raises(UserError, match="pass them to the mechanism"):
        MultiHeadAttention(12, 3, mechanism, positions="alibi")
    with pytest.raises(UserError, match="pass them to the mechanism"):
        MultiHeadAttention(12, 3, mechanism, key_width=4)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned:length=8"])
def test_positions_that_a_layer_would_ignore_are_an_error(positions: str):
    with pytest.raises(UserError, match="at the input of a model"):
        MultiHeadAttention(12, 3, positions=positions)


def test_a_mechanism_object_must_fit_the_layer():
    for dim, heads in ((12, 4), (24, 3)):
        with pytest.raises(UserError, match=f"dim=12 and heads=3; the layer has dim={dim} and heads={heads}"):
            MultiHeadAttention(dim, heads, DotMechanism(12, 3))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "sizes", [{"heads": 0}, {"heads": -3}, {"dim": 0}, {"value_width": 0}, {"context_dim": -1}], ids=str
)
def test_sizes_below_one_are_an_error(mechanism: str, sizes: dict[str, int]):
    ((name, size),) = sizes.items()
    with pytest.raises(UserError, match=f"{name} must be at least 1, not {size}"):
        MultiHeadAttention(**{"dim": 12, "heads": 3, **sizes}, mechanism=mechanism)


@pytest.mark.parametrize("positions", POSITIONS)
def test_positions_without_heads_are_an_error(positions: str):
    with pytest.raises(UserError, match="heads must be at least 1, not 0"):
        MultiHeadAttention(12, 0, positions=positions)


def test_projections_have_the_same_initialization_at_any_context_width():
    """Glorot's bound and no bias, so that compared mechanisms differ in their scores only."""
    mechanism = MultiHeadAttention(60, 3, context_dim=17).mechanism
    assert mechanism.q.bias.abs().max() == 0
    assert 0.95 < float(mechanism.q.weight.detach().abs().max()) / (6 / (60 + 60)) ** 0.5 <= 1


def test_options_of_the_mechanism_as_text_and_as_keywords():
    assert MultiHeadAttention(12, 3, "dot:key_width=5").mechanism.key_width == 5
    assert MultiHeadAttention(12, 3, "dot", key_width=5).mechanism.key_width == 5
    assert MultiHeadAttention(12, 3, "local:key_width=5,window=2").mechanism.key_width == 5
    assert MultiHeadAttention(12, 3, value_width=5)(torch.randn(1, 2, 12)).shape == (1, 2, 12)
    assert MultiHeadAttention(12, 3, value_width=5, output_proj=False)(torch.randn(1, 2, 12)).shape == (1, 2, 15)


def test_the_cost_of_a_layer_by_hand():
    """dim 4, 2 heads of width 2, n = 3: projections 4 · 2 · 3 · 4 · 4 = 384, pairs 2 · 2 · 3 · 3 · (2 + 2) = 144."""
    cost = MultiHeadAttention(4, 2).cost(3)
    assert cost.params == 4 * (4 * 4 + 4)
    assert cost.flops == 384 + 144
    assert cost.memory == 4 * 2 * 3 * 3
