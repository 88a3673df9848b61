"""The constructions do what their formulas say, at sizes other than those of the statements."""

from __future__ import annotations

import math

import pytest
import torch

from regard.theory.claims import hand_set_attention as made
from regard.theory.claims.expressivity import parity


@pytest.mark.parametrize("n", [2, 7, 100])
@pytest.mark.parametrize("margin", [0.0, 1.5, 12.0])
def test_copying_is_its_formula(n, margin):
    row = made.copying(margin, n)
    assert float(row[0]) == pytest.approx(made.weight_of_margin(margin, n), rel=1e-12)
    assert float(row.sum()) == pytest.approx(1.0)


def test_averaging_gives_halves_and_not_ones():
    row = made.averaging(40.0, 13)
    assert row[:2].tolist() == pytest.approx([0.5, 0.5], abs=1e-12)


@pytest.mark.parametrize("share", [0.1, 0.6, 0.9])
def test_any_entropy_can_be_had(share):
    n = 9
    row = made.copying(made.margin_for_entropy(share * math.log(n), n), n)
    assert float(-(row * row.log()).sum()) == pytest.approx(share * math.log(n), abs=1e-9)


def test_noise_has_the_covariance_that_is_said():
    keys = made.keys_with_noise(4, 0.01, 200_000, seed=1)
    assert keys[:, 0, 0].var().item() == pytest.approx(0.51, rel=0.02)
    assert keys[:, 0, 1].var().item() == pytest.approx(0.01, rel=0.02)
    assert keys[:, 1, 1].var().item() == pytest.approx(0.01, rel=0.02)
    assert keys.mean(0).sub(torch.eye(4)).abs().max().item() < 0.01


def test_two_heads_are_steadier_and_fail_as_often_as_said():
    one, two = made.one_head(20.0, 6, seed=3), made.two_heads(20.0, 6, seed=3)
    assert two.variance < one.variance / 3
    assert two.off == pytest.approx(made.chance_of_failing(20.0, 6), abs=0.012)


def test_without_noise_nothing_swings():
    keys = torch.eye(5, dtype=torch.float64).expand(3, 5, 5)
    query = torch.tensor([30.0, 30.0, 0, 0, 0], dtype=torch.float64).expand(3, 5)
    assert made.attention(query, keys)[:, 0].tolist() == pytest.approx([0.5] * 3, abs=1e-9)


def test_the_same_seed_draws_the_same():
    assert torch.equal(
        made.one_head(5.0, draws=100, seed=4).coefficients, made.one_head(5.0, draws=100, seed=4).coefficients
    )
    assert not torch.equal(
        made.one_head(5.0, draws=100, seed=4).coefficients, made.one_head(5.0, draws=100, seed=5).coefficients
    )


def test_by_hand_reads_what_it_should():
    found = made.by_hand(7.0)
    assert found.weights.sum(-1).tolist() == pytest.approx([1.0] * 3)
    assert found.outputs[1].tolist() == pytest.approx([0, 1, 0, 0], abs=1e-6)
    assert found.outputs[0].tolist() == pytest.approx([0, 1, -1, 0], abs=1e-6)


def test_parity_by_two_layers():
    bits = torch.tensor([[1, 0, 1, 1, 0], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    assert (parity(bits) > 0).tolist() == [True, False, False, True]
