"""Rotary positions against their formula and against Hugging Face's Llama."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from regard.attention.positions import build
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.layers import MultiHeadAttention

B, H, N, D = 2, 3, 5, 14


def test_equal_to_llama():
    torch.manual_seed(0)
    q, k = torch.randn(2, B, H, N, D)
    rotary = build("rotary", H * D, H)
    config = LlamaConfig(hidden_size=H * D, num_attention_heads=H, rope_theta=10_000.0)
    position_ids = torch.stack((torch.arange(N), torch.arange(N) + 37))
    theirs = apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(config)(q, position_ids))
    torch.testing.assert_close(rotary.rotate(q, position_ids), theirs[0])
    torch.testing.assert_close(rotary.rotate(k, position_ids), theirs[1])


def test_the_formula_pair_by_pair():
    torch.manual_seed(1)
    x = torch.randn(1, 1, N, D).double()
    result = build("rotary:base=100", D, 1).rotate(x, range(3, 3 + N))
    for n in range(N):
        for i in range(D // 2):
            angle = (n + 3) * 100 ** (-2 * i / D)
            a, b = float(x[0, 0, n, i]), float(x[0, 0, n, i + D // 2])
            assert float(result[0, 0, n, i]) == pytest.approx(a * math.cos(angle) - b * math.sin(angle))
            assert float(result[0, 0, n, i + D // 2]) == pytest.approx(b * math.cos(angle) + a * math.sin(angle))


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_rotated_scores_depend_on_the_distance_only(i, j, shift):
    torch.manual_seed(2)
    q, k = torch.randn(2, 1, 1, 1, D).double()
    rotary = build("rotary", D, 1)

    def score(p, s):
        position_ids = (torch.tensor([position]) for position in (p, s))
        return float((rotary.rotate(q, next(position_ids)) * rotary.rotate(k, next(position_ids))).sum())

    assert score(i, j) == pytest.approx(score(i + shift, j + shift), abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_types_of_position_ids_agree(dtype):
    x = torch.randn(B, H, 6, D, dtype=dtype)
    rotary = build("rotary", H * D, H)
    plain = rotary.rotate(x, range(6))
    for position_ids in (torch.arange(6), torch.arange(6).expand(B, -1), Grid(2, 3)):
        torch.testing.assert_close(rotary.rotate(x, position_ids), plain, rtol=0, atol=0)
    assert plain.dtype == dtype
    torch.testing.assert_close(rotary.rotate(x, range(1000, 1006)), rotary.rotate(x, torch.arange(1000, 1006)))


def test_norms_are_preserved_and_gradients_flow():
    x = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    rotary = build("rotary", 8, 2)
    torch.testing.assert_close(rotary.rotate(x, range(3)).norm(dim=-1), x.norm(dim=-1))
    assert torch.autograd.gradcheck(lambda y: rotary.rotate(y, range(3)), x)


def test_training_after_predicting():
    """A table cached in inference mode must work in a backward pass."""
    layer = MultiHeadAttention(12, 2, positions="rotary")
    x = torch.randn(1, 5, 12)
    with torch.inference_mode():
        before = layer(x)
    after = layer(x)
    after.sum().backward()
    torch.testing.assert_close(before.clone(), after.detach())


def test_widths_that_differ_share_one_object():
    rotary = build("rotary", 12, 2)
    narrow, wide = MultiHeadAttention(12, 2, positions=rotary, key_width=4), MultiHeadAttention(12, 2, positions=rotary)
    x = torch.randn(1, 5, 12)
    assert narrow(x).shape == wide(x).shape == x.shape


def test_compiled_equals_eager():
    torch.manual_seed(3)
    layer, x = MultiHeadAttention(12, 2, positions="rotary"), torch.randn(2, 5, 12)
    torch.testing.assert_close(torch.compile(layer, backend="aot_eager")(x), layer(x))


def test_odd_widths_are_an_error():
    with pytest.raises(UserError, match="need an even key width; given 3"):
        MultiHeadAttention(12, 4, positions="rotary")(torch.randn(1, 2, 12))


@pytest.mark.parametrize("mechanism", ["dot", "bare", "local", "local-2d"])
def test_an_odd_width_is_an_error_when_the_layer_is_built(mechanism):
    with pytest.raises(UserError, match="even key width"):
        MultiHeadAttention(15, 3, mechanism, positions="rotary")
