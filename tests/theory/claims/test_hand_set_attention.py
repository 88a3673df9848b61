"""The constructions match their formulas, at other sizes than those of the claims."""

from __future__ import annotations

import math

import pytest
import torch

from regard.theory.claims import hand_set_attention as hand_set
from regard.theory.claims.expressivity import parity_attention


@pytest.mark.parametrize("n", [2, 7, 100])
@pytest.mark.parametrize("margin", [0.0, 1.5, 12.0])
def test_copying_matches_its_formula(n, margin):
    row = hand_set.copying_weights(margin, n)
    assert float(row[0]) == pytest.approx(hand_set.weight_by_margin(margin, n), rel=1e-12)
    assert float(row.sum()) == pytest.approx(1.0)


def test_averaging_weights_are_one_half():
    row = hand_set.averaging_weights(40.0, 13)
    assert row[:2].tolist() == pytest.approx([0.5, 0.5], abs=1e-12)


@pytest.mark.parametrize("fraction", [0.1, 0.6, 0.9])
def test_any_entropy_is_possible(fraction):
    n = 9
    row = hand_set.copying_weights(hand_set.margin_for_entropy(fraction * math.log(n), n), n)
    assert float(-(row * row.log()).sum()) == pytest.approx(fraction * math.log(n), abs=1e-9)


def test_keys_have_the_stated_covariance():
    keys = hand_set.sample_keys(4, 0.01, 200_000, seed=1)
    assert keys[:, 0, 0].var().item() == pytest.approx(0.51, rel=0.02)
    assert keys[:, 0, 1].var().item() == pytest.approx(0.01, rel=0.02)
    assert keys[:, 1, 1].var().item() == pytest.approx(0.01, rel=0.02)
    assert keys.mean(0).sub(torch.eye(4)).abs().max().item() < 0.01


def test_two_heads_have_lower_variance_and_the_stated_failure_rate():
    one, two = hand_set.one_head(20.0, 6, seed=3), hand_set.two_heads(20.0, 6, seed=3)
    assert two.variance < one.variance / 3
    assert two.failure_rate == pytest.approx(hand_set.failure_probability(20.0, 6), abs=0.012)


def test_without_noise_the_weights_are_equal():
    keys = torch.eye(5, dtype=torch.float64).expand(3, 5, 5)
    query = torch.tensor([30.0, 30.0, 0, 0, 0], dtype=torch.float64).expand(3, 5)
    assert hand_set.attention_weights(query, keys)[:, 0].tolist() == pytest.approx([0.5] * 3, abs=1e-9)


def test_the_same_seed_gives_the_same_samples():
    assert torch.equal(
        hand_set.one_head(5.0, samples=100, seed=4).coefficients,
        hand_set.one_head(5.0, samples=100, seed=4).coefficients,
    )
    assert not torch.equal(
        hand_set.one_head(5.0, samples=100, seed=4).coefficients,
        hand_set.one_head(5.0, samples=100, seed=5).coefficients,
    )


def test_hand_set_layer_gives_the_stated_outputs():
    layer = hand_set.hand_set_layer(7.0)
    assert layer.weights.sum(-1).tolist() == pytest.approx([1.0] * 3)
    assert layer.outputs[1].tolist() == pytest.approx([0, 1, 0, 0], abs=1e-6)
    assert layer.outputs[0].tolist() == pytest.approx([0, 1, -1, 0], abs=1e-6)


def test_parity_with_two_layers():
    bits = torch.tensor([[1, 0, 1, 1, 0], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    assert (parity_attention(bits) > 0).tolist() == [True, False, False, True]
