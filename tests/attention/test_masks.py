"""Masks: shapes, dtypes and polarity are checked, and the parts are combined."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks import Mask, all_keys_visible, build_mask
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.layers import MultiHeadAttention

CPU = torch.device("cpu")


def build(key_mask=None, attn_mask=None, causal=False, **sizes):
    return build_mask(key_mask, attn_mask, causal, **{"b": 2, "h": 4, "q": 3, "k": 5, **sizes})


def test_no_mask_is_none_and_causal_alone_is_a_mask():
    assert build() is None
    assert build(causal=True) == Mask(causal=True)


@pytest.mark.parametrize("shape", [(2, 5), (1, 5)])
def test_shapes_of_a_key_mask(shape):
    mask = build(key_mask=torch.ones(shape, dtype=torch.bool))
    assert mask.key_mask.shape == shape
    assert mask.attn_mask is None


@pytest.mark.parametrize(
    ("shape", "expanded"),
    [
        ((3, 5), (1, 1, 3, 5)),
        ((2, 3, 5), (2, 1, 3, 5)),
        ((1, 3, 5), (1, 1, 3, 5)),
        ((2, 4, 3, 5), (2, 4, 3, 5)),
        ((1, 1, 3, 5), (1, 1, 3, 5)),
    ],
)
def test_shapes_of_an_attn_mask(shape, expanded):
    mask = build(attn_mask=torch.ones(shape, dtype=torch.bool))
    assert mask.attn_mask.shape == expanded
    assert mask.key_mask is None


@pytest.mark.parametrize("shape", [(5,), (2, 6), (3, 5), (2, 1), (2, 3, 5), (2, 4, 3, 5)])
def test_a_wrong_key_mask_shape_is_an_error_with_the_expected_one(shape):
    with pytest.raises(UserError, match=r"key_mask has shape .*expected \(batch, keys\) = \(2, 5\).*attn_mask"):
        build(key_mask=torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize(
    "shape", [(5,), (2, 5), (3, 6), (1, 5), (2, 5, 3), (4, 3, 5), (2, 3, 3, 5), (2, 4, 5, 3), (1, 2, 4, 3, 5)]
)
def test_a_wrong_attn_mask_shape_is_an_error_with_the_expected_one(shape):
    with pytest.raises(UserError, match=r"attn_mask has shape .*expected \(queries, keys\) = \(3, 5\).*key_mask"):
        build(attn_mask=torch.ones(shape, dtype=torch.bool))


def test_a_square_attn_mask_is_not_taken_for_padding():
    """Batch size and length are equal, so a mask (queries, keys) has the shape of a mask (batch, keys) too."""
    n = 5
    layer, x = MultiHeadAttention(6, 2).eval(), torch.randn(n, n, 6)
    triangle = torch.ones(n, n, dtype=torch.bool).tril()
    expected = layer(x, causal=True)
    torch.testing.assert_close(layer(x, attn_mask=triangle), expected)
    torch.testing.assert_close(layer(x, attn_mask=triangle.expand(n, n, n)), expected)
    torch.testing.assert_close(layer(x, attn_mask=triangle.expand(n, 2, n, n)), expected)
    assert not torch.allclose(layer(x, key_mask=triangle), expected, atol=1e-3)
    with pytest.raises(TypeError, match="mask"):
        layer(x, mask=triangle)


def test_key_mask_and_attn_mask_are_combined():
    layer, x = MultiHeadAttention(6, 2).eval(), torch.randn(2, 5, 6)
    keys = torch.arange(5) < torch.tensor([[5], [3]])
    pairs = torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) < 0.7
    both = layer(x, key_mask=keys, attn_mask=pairs, causal=True)
    combined = keys[:, None] & pairs & torch.ones(5, 5, dtype=torch.bool).tril()
    torch.testing.assert_close(both[keys], layer(x, attn_mask=combined)[keys])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_wrong_dtype_is_an_error_with_the_fix(dtype):
    layer, x = MultiHeadAttention(6, 2), torch.randn(2, 5, 6)
    for name, shape in (("key_mask", (2, 5)), ("attn_mask", (5, 5))):
        with pytest.raises(UserError, match=rf"{name} must be a bool tensor.*given dtype.*mask == 0"):
            layer(x, **{name: torch.ones(shape, dtype=dtype)})


def test_an_inverted_key_mask_is_an_error():
    keys = torch.arange(5) < torch.tensor([[5], [3]])
    assert build(key_mask=keys).key_mask is keys
    with pytest.raises(UserError, match=r"inverted.*pass ~mask"):
        build(key_mask=~keys)
    with pytest.raises(UserError, match="inverted"):  # torch.nn's mask of a batch without padding
        build(key_mask=torch.zeros(2, 5, dtype=torch.bool))
    with pytest.raises(UserError, match="inverted"):
        MultiHeadAttention(6, 2).project_kv(torch.randn(2, 5, 6), key_mask=~keys)
    with pytest.raises(UserError, match="inverted"):
        MultiHeadAttention(6, 2).step(torch.randn(2, 5, 6), key_mask=~keys)


@pytest.mark.parametrize("shape", [(5, 5), (1, 5, 5), (1, 1, 5, 5)])
def test_an_inverted_causal_mask_is_an_error(shape):
    triangle = torch.ones(shape, dtype=torch.bool).tril()
    assert build(attn_mask=triangle, q=5).attn_mask is not None
    with pytest.raises(UserError, match=r"inverted.*causal=True"):
        build(attn_mask=~triangle, q=5)


def test_left_padding_and_an_empty_row_are_allowed():
    left = torch.arange(5) >= torch.tensor([[0], [2]])
    assert build(key_mask=left).key_mask is left
    empty = torch.tensor([[True] * 5, [False] * 5])
    assert build(key_mask=empty).key_mask is empty


def test_a_cached_context_takes_a_key_mask_only():
    with pytest.raises(UserError, match=r"key_mask has shape \(2, 5, 5\); expected \(batch, keys\) = \(2, 5\)"):
        MultiHeadAttention(6, 2).project_kv(torch.randn(2, 5, 6), key_mask=torch.ones(2, 5, 5, dtype=torch.bool))


def test_allowed_combines_all_parts():
    keys = torch.tensor([[True, True, False]])
    pairs = torch.tensor([[[[True, False, True], [True, True, True], [True, True, True]]]])
    allowed = Mask(keys, pairs, causal=True).allowed(range(3), range(3), CPU)
    assert allowed is not None
    assert allowed[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


def test_causal_compares_positions_not_indices():
    later = Mask(causal=True).allowed(range(2, 4), range(4), CPU)
    assert later is not None
    assert later[0, 0].int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    per_row = Mask(causal=True).allowed(torch.tensor([[0, 1], [1, 2]]), range(3), CPU)
    assert per_row is not None
    assert per_row[:, 0].int().tolist() == [[[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [1, 1, 1]]]
    grid = Mask(causal=True).allowed(Grid(2, 2), Grid(2, 2), CPU)
    assert torch.equal(grid[0, 0], torch.ones(4, 4, dtype=torch.bool).tril())


def test_a_decoding_step_needs_no_mask():
    assert all_keys_visible(range(4, 5), range(5))
    assert not all_keys_visible(range(3, 5), range(5))
    assert Mask(causal=True).allowed(range(4, 5), range(5), CPU) is None
    assert not all_keys_visible(torch.tensor([4]), range(5))


def test_plain_causal_needs_equal_positions_and_no_other_mask():
    assert Mask(causal=True).is_plain_causal(range(5), range(5))
    assert not Mask(causal=True).is_plain_causal(range(1, 5), range(5))
    assert not Mask(key_mask=torch.ones(1, 5).bool(), causal=True).is_plain_causal(range(5), range(5))
    assert not Mask().is_plain_causal(range(5), range(5))


@settings(max_examples=60, deadline=None)
@given(start=st.integers(0, 9), q=st.integers(1, 6), first=st.integers(0, 9), k=st.integers(1, 9))
def test_causal_is_its_definition_for_any_ranges(start: int, q: int, first: int, k: int):
    queries, keys = range(start, start + q), range(first, first + k)
    allowed = Mask(causal=True).allowed(queries, keys, CPU)
    expected = torch.tensor([[j <= i for j in keys] for i in queries])
    assert torch.equal(expected if allowed is None else allowed[0, 0], expected)
    assert allowed is not None or bool(expected.all())
