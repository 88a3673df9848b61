"""Masks: what they allow, what they refuse, and what they say then."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks import Mask, as_mask, sees_all
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.layers import MultiHeadAttention

CPU = torch.device("cpu")


def check(mask, **sizes):
    return as_mask(mask, **{"causal": False, "b": 2, "q": 3, "k": 5, "h": 4, **sizes})


def test_no_mask_stays_none_and_causal_makes_one():
    assert check(None) is None
    assert check(None, causal=True) == Mask(causal=True)


@pytest.mark.parametrize(
    ("shape", "part", "kept"),
    [
        ((2, 5), "keys", (2, 5)),
        ((1, 5), "keys", (1, 5)),
        ((2, 3, 5), "pairs", (2, 1, 3, 5)),
        ((1, 3, 5), "pairs", (1, 1, 3, 5)),
        ((2, 4, 3, 5), "pairs", (2, 4, 3, 5)),
        ((1, 1, 3, 5), "pairs", (1, 1, 3, 5)),
    ],
)
def test_a_tensor_is_about_keys_or_pairs_by_its_shape(shape, part, kept):
    mask = check(torch.ones(shape, dtype=torch.bool))
    assert getattr(mask, part).shape == kept
    assert getattr(mask, "pairs" if part == "keys" else "keys") is None


@pytest.mark.parametrize("shape", [(5,), (2, 6), (3, 5), (2, 5, 3), (2, 3, 3, 5), (2, 4, 5, 3), (1, 2, 4, 3, 5)])
def test_a_wrong_shape_is_told_with_the_right_one(shape):
    with pytest.raises(UserError, match=r"has shape .*wanted \(2, .*5\)"):
        check(torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_wrong_dtype_is_told_with_the_fix(dtype):
    for mask in (torch.ones(2, 5, dtype=dtype), Mask(key_mask=torch.ones(2, 5, dtype=dtype))):
        with pytest.raises(UserError, match=r"must be bool.*mask == 0"):
            check(mask)
    with pytest.raises(UserError, match="must be bool"):  # through the layer too, before anything uses it
        MultiHeadAttention(6, 2)(torch.randn(2, 5, 6), mask=torch.ones(2, 5, dtype=dtype))


def test_padding_turned_round_is_told():
    real = torch.arange(5) < torch.tensor([[5], [3]])
    assert check(real).keys is real
    with pytest.raises(UserError, match=r"turned round.*pass ~mask"):
        check(~real)
    with pytest.raises(UserError, match="turned round"):  # torch.nn's mask of a batch without padding
        check(torch.zeros(2, 5, dtype=torch.bool))


def test_a_causal_mask_turned_round_is_told():
    triangle = torch.ones(1, 5, 5, dtype=torch.bool).tril()
    assert check(triangle, q=5).pairs is not None
    with pytest.raises(UserError, match=r"turned round.*causal=True"):
        check(~triangle, q=5)


def test_left_padding_and_an_empty_row_are_no_mistake():
    left = torch.arange(5) >= torch.tensor([[0], [2]])
    assert check(left).keys is left
    empty = torch.tensor([[True] * 5, [False] * 5])
    assert check(empty).keys is empty


def test_a_memory_takes_no_mask_of_pairs():
    with pytest.raises(UserError, match="about keys"):
        MultiHeadAttention(6, 2).project_kv(torch.randn(2, 5, 6), mask=torch.ones(2, 5, 5, dtype=torch.bool))


def test_allowed_is_the_product_of_its_parts_by_hand():
    keys = torch.tensor([[True, True, False]])
    pairs = torch.tensor([[[[True, False, True], [True, True, True], [True, True, True]]]])
    allowed = Mask(keys, pairs, causal=True).allowed(range(3), range(3), CPU)
    assert allowed is not None
    assert allowed[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


def test_causal_goes_by_places_not_by_numbers():
    later = Mask(causal=True).allowed(range(2, 4), range(4), CPU)
    assert later is not None
    assert later[0, 0].int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    each = Mask(causal=True).allowed(torch.tensor([[0, 1], [1, 2]]), range(3), CPU)
    assert each is not None
    assert each[:, 0].int().tolist() == [[[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [1, 1, 1]]]
    reading = Mask(causal=True).allowed(Grid(2, 2), Grid(2, 2), CPU)
    assert torch.equal(reading[0, 0], torch.ones(4, 4, dtype=torch.bool).tril())


def test_a_decoding_step_needs_no_mask():
    assert sees_all(range(4, 5), range(5))
    assert not sees_all(range(3, 5), range(5))
    assert Mask(causal=True).allowed(range(4, 5), range(5), CPU) is None
    assert not sees_all(torch.tensor([4]), range(5))


def test_plain_causal_is_only_plain():
    assert Mask(causal=True).is_plain_causal(range(5), range(5))
    assert not Mask(causal=True).is_plain_causal(range(1, 5), range(5))
    assert not Mask(key_mask=torch.ones(1, 5).bool(), causal=True).is_plain_causal(range(5), range(5))
    assert not Mask().is_plain_causal(range(5), range(5))


@settings(max_examples=60, deadline=None)
@given(start=st.integers(0, 9), q=st.integers(1, 6), first=st.integers(0, 9), k=st.integers(1, 9))
def test_causal_is_the_definition_for_any_stretches(start: int, q: int, first: int, k: int):
    queries, keys = range(start, start + q), range(first, first + k)
    allowed = Mask(causal=True).allowed(queries, keys, CPU)
    wanted = torch.tensor([[j <= i for j in keys] for i in queries])
    assert torch.equal(wanted if allowed is None else allowed[0, 0], wanted)
    assert allowed is not None or bool(wanted.all())
