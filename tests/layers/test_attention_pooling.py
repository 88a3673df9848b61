"""Attention pooling by hand, and two measures of how hops differ: ‖AAᵀ - I‖²_F and the mean pairwise KL."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks import Mask
from regard.errors import UserError
from regard.layers import AttentionPooling, hop_kl, hop_penalty

LN3 = math.log(3)


def hop_weights(*rows):
    """Attention weights (1, 1, hops, n)."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


def test_pooling_by_hand():
    """W_1 = 1, context 1: logits tanh(x); x = (0, artanh ln 3) gives odds 1 : 3."""
    pool = AttentionPooling(1, 1, bias=False)
    with torch.no_grad():
        pool.project.weight.fill_(1), pool.context.weight.fill_(LN3 / 0.8)
        x = torch.tensor([0.0, math.atanh(0.8)]).view(1, 2, 1)
        out, scores = pool(x)
    assert torch.allclose(scores.weights()[0, 0, 0], torch.tensor([0.25, 0.75]))
    assert float(out) == pytest.approx(0.75 * math.atanh(0.8))


def test_padding_has_no_influence_and_an_empty_row_gives_zero():
    torch.manual_seed(0)
    pool, x = AttentionPooling(5, 7, hops=2), torch.randn(3, 4, 5)
    mask = torch.arange(4) < torch.tensor([[4], [2], [0]])
    out, _ = pool(x, mask)
    with_nan, _ = pool(x.masked_fill(~mask[..., None], torch.nan), mask)
    assert torch.equal(out, with_nan)
    assert torch.allclose(out[1], pool(x[1:2, :2])[0][0], atol=1e-6)
    assert torch.equal(out[2], torch.zeros(2, 5))


def test_the_key_mask_is_checked():
    pool, x = AttentionPooling(5), torch.randn(2, 4, 5)
    with pytest.raises(UserError, match=r"key_mask must be a bool tensor .*given dtype torch.int64"):
        pool(x, torch.ones(2, 4, dtype=torch.int64))
    with pytest.raises(UserError, match=r"key_mask has shape \(4, 2\); expected \(batch, keys\) = \(2, 4\)"):
        pool(x, torch.ones(4, 2, dtype=torch.bool))


def test_pooling_without_hops_is_an_error():
    with pytest.raises(UserError, match="pooling: hops must be at least 1, not 0"):
        AttentionPooling(5, hops=0)


@pytest.mark.parametrize("n", [2, 5, 7])
def test_identical_uniform_hops_have_off_diagonals_of_one_nth(n):
    """Two identical rows need not give 1: uniform ones give 1/n, so P = 2 (1/n)² + 2 (1/n - 1)²."""
    a = torch.full((1, 1, 2, n), 1 / n, dtype=torch.float64)
    assert (a @ a.transpose(-2, -1))[0, 0, 0, 1] == pytest.approx(1 / n)
    assert float(hop_penalty(a)) == pytest.approx(2 / n**2 + 2 * (1 - 1 / n) ** 2)
    assert float(hop_kl(a)) == pytest.approx(0, abs=1e-12)


def test_the_penalty_is_zero_for_distinct_one_hot_hops_and_two_for_equal_ones():
    assert float(hop_penalty(hop_weights([1, 0, 0], [0, 0, 1]))) == 0
    assert float(hop_penalty(hop_weights([1, 0, 0], [1, 0, 0]))) == 2


@given(st.integers(1, 5), st.integers(1, 7), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_softmax_never_reaches_zero_and_off_diagonals_lie_between_zero_and_one(r, n, seed):
    generator = torch.Generator().manual_seed(seed)
    a = (torch.randn(1, 1, r, n, generator=generator, dtype=torch.float64) * 3).softmax(-1)
    overlap = (a @ a.transpose(-2, -1))[0, 0]
    off = overlap[~torch.eye(r, dtype=torch.bool)]
    assert (off > 0).all()
    assert n == 1 or (off < 1).all()
    assert n == 1 or float(hop_penalty(a)) > 0
    assert r <= n or float(hop_penalty(a)) > 0.1  # more hops than tokens cannot all be distinct


def test_the_penalty_by_hand():
    a = hop_weights([0.5, 0.5, 0.0], [0.2, 0.3, 0.5])
    assert float(hop_penalty(a)) == pytest.approx((0.5 - 1) ** 2 + (0.38 - 1) ** 2 + 2 * 0.25**2)


def test_hop_kl_equals_plain_sums():
    torch.manual_seed(0)
    a = torch.randn(3, 1, 5, 7, dtype=torch.float64).softmax(-1)
    result = hop_kl(a)
    for b in range(3):
        pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
        kl = [sum(p * (p / q).log() for p, q in zip(a[b, 0, i], a[b, 0, j], strict=True)) for i, j in pairs]
        assert float(result[b]) == pytest.approx(float(sum(kl)) / len(pairs))


def test_hop_kl_is_finite_with_padding_and_one_hop():
    a = hop_weights([0.5, 0.5, 0.0, 0.0], [0.9, 0.1, 0.0, 0.0])
    unpadded = hop_weights([0.5, 0.5], [0.9, 0.1])
    assert float(hop_kl(a)) == pytest.approx(float(hop_kl(unpadded)))
    assert float(hop_kl(hop_weights([0.3, 0.7]))) == 0
    assert torch.isfinite(hop_kl(hop_weights([1, 0], [0, 1]))).all()


@pytest.mark.parametrize("measure", [hop_penalty, hop_kl])
def test_both_measures_have_gradients_except_for_padding(measure):
    torch.manual_seed(1)
    pool = AttentionPooling(5, hidden=7, hops=3).double()
    x = torch.randn(2, 11, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(2, 11, dtype=torch.bool)
    mask[1, 6:] = False
    _, scores = pool(x, mask)
    measure(scores.weights(Mask(key_mask=mask))).sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert (x.grad[1, 6:] == 0).all()
    assert (x.grad[1, :6] != 0).any()


def test_minimizing_the_penalty_separates_hops():
    torch.manual_seed(2)
    logits = (torch.randn(1, 1, 3, 7) * 0.1).requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.3)
    before = float(hop_penalty(logits.softmax(-1)).detach())
    for _ in range(80):
        optimizer.zero_grad()
        hop_penalty(logits.softmax(-1)).sum().backward()
        optimizer.step()
    a = logits.detach().softmax(-1)
    assert float(hop_penalty(a)) < 0.01 < before
    assert len(set(a.argmax(-1).flatten().tolist())) == 3
