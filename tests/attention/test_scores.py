"""Scores, softmax and dropout, with numbers that can be checked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks import Mask
from regard.attention.mechanisms.dot import DotMechanism
from regard.attention.scores import Attend, DenseScores, DotScores, masked_softmax
from regard.attention.token_positions import QueryKeyPositions

LN2, LN3 = math.log(2), math.log(3)


def test_weights_of_three_keys():
    """Odds 1 : 2 : 3 give weights 1/6, 2/6, 3/6; values 6, 0, 12 give 1 + 0 + 6 = 7."""
    scores = DenseScores(torch.tensor([0.0, LN2, LN3]).view(1, 1, 1, 3), QueryKeyPositions(range(1), range(3)))
    assert torch.allclose(scores.weights()[0, 0, 0], torch.tensor([1.0, 2.0, 3.0]) / 6)
    value = torch.tensor([6.0, 0.0, 12.0]).view(1, 1, 3, 1)
    assert float(Attend()(scores, value)) == pytest.approx(7)
    mask = Mask(key_mask=torch.tensor([[True, True, False]]))  # odds 1 : 2, so 2
    assert float(Attend()(scores, value, mask)) == pytest.approx(2)


def test_the_dot_product_is_scaled_by_the_root_of_the_width():
    """d = 4: q·k = 2 ln 3 and 0, scaled by 1/2: ln 3 and 0, weights 3/4 and 1/4; values 4 and 8 give 5."""
    query = torch.tensor([1.0, 0, 0, 0]).view(1, 1, 1, 4)
    key = torch.tensor([[2 * LN3, 0, 0, 0], [0, 1.0, 0, 0]]).view(1, 1, 2, 4)
    scores = DotMechanism(4, 1).score(query, key, QueryKeyPositions(range(1), range(2)))
    assert torch.allclose(scores.weights()[0, 0, 0], torch.tensor([0.75, 0.25]))
    value = torch.tensor([[4.0], [8.0]]).view(1, 1, 2, 1)
    assert float(scores.attend(value)) == pytest.approx(5)


def test_a_bias_is_added_to_the_logits():
    query, key = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 3, 2)
    bias = torch.tensor([0.0, LN3, LN2]).view(1, 1, 1, 3)
    scores = DotScores(query, key, QueryKeyPositions(range(1), range(3)), 1.0, bias)
    assert torch.allclose(scores.weights()[0, 0, 0], torch.tensor([1.0, 3.0, 2.0]) / 6)
    value = torch.tensor([6.0, 0.0, 12.0]).view(1, 1, 3, 1)
    assert float(scores.attend(value)) == pytest.approx(5)
    assert float(scores.attend(value, Mask(key_mask=torch.tensor([[True, False, True]])))) == pytest.approx(10)


def test_a_row_without_allowed_keys_is_zero():
    logits = torch.randn(1, 1, 2, 3, requires_grad=True)
    weights = masked_softmax(logits, torch.tensor([[True, False, True], [False, False, False]]))
    assert weights[0, 0, 1].tolist() == [0.0, 0.0, 0.0]
    assert weights[0, 0, 0, 1].item() == 0.0
    weights.square().sum().backward()
    assert bool(logits.grad.isfinite().all())
    assert float(logits.grad[0, 0, 1].abs().max()) == 0.0


def test_dropout_acts_on_weights_in_training_only():
    scores = DenseScores(torch.zeros(1, 1, 1, 4), QueryKeyPositions(range(1), range(4)))
    value, attend = torch.eye(4)[None, None], Attend(0.5)
    torch.manual_seed(0)
    outputs = torch.stack([attend(scores, value).flatten() for _ in range(50)])
    assert set(outputs.flatten().tolist()) == {0.0, 0.5}  # a quarter each, doubled or dropped
    assert attend.eval()(scores, value).flatten().tolist() == [0.25] * 4


@settings(max_examples=40, deadline=None)
@given(q=st.integers(1, 7), k=st.integers(1, 7), seed=st.integers(0, 999), size=st.floats(0.01, 30))
def test_weights_are_a_softmax_over_the_allowed_keys(q: int, k: int, seed: int, size: float):
    g = torch.Generator().manual_seed(seed)
    logits = size * torch.randn(2, 3, q, k, generator=g, dtype=torch.float64)
    allowed = torch.rand(2, 1, q, k, generator=g) < 0.5
    weights = masked_softmax(logits, allowed)
    exp = torch.where(allowed, (logits - logits.amax(-1, keepdim=True)).exp(), 0.0)
    total = exp.sum(-1, keepdim=True)
    assert torch.allclose(weights, torch.where(total > 0, exp / total, 0.0))
    assert float(weights.masked_select(~allowed).abs().sum()) == 0.0


@settings(max_examples=25, deadline=None)
@given(
    heads=st.integers(1, 3),
    width=st.integers(1, 5),
    n=st.integers(1, 6),
    m=st.integers(1, 6),
    seed=st.integers(0, 99),
    masked=st.booleans(),
)
def test_the_fused_kernel_equals_weights_times_values(heads: int, width: int, n: int, m: int, seed: int, masked: bool):
    g = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(2, heads, s, width, generator=g, dtype=torch.float64) for s in (n, m, m))
    bias = torch.randn(1, heads, n, m, generator=g, dtype=torch.float64) if seed % 2 else None
    mask = Mask(attn_mask=torch.rand(2, 1, n, m, generator=g) < 0.5) if masked else None
    scores = DotScores(query, key, QueryKeyPositions(range(n), range(m)), 0.7, bias)
    assert torch.allclose(scores.attend(value, mask), scores.apply(scores.weights(mask), value))
