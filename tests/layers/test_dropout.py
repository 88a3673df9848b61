"""Dropout: probability, scale, gradient and seed."""

import pytest
import torch

from regard.layers.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_fraction_dropped_and_the_mean(p: float):
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(1000, 1003))
    assert (y == 0).float().mean().item() == pytest.approx(p, abs=0.003)
    assert y.mean().item() == pytest.approx(1.0, abs=0.01)
    assert y.unique().numel() == 2


def test_elements_are_dropped_independently():
    """Neighbours that share a random number are independent, and all elements are dropped equally often."""
    torch.manual_seed(0)
    y = (Dropout(0.5)(torch.ones(200_000, 8)) == 0).float()
    assert y.mean(0).sub(0.5).abs().max() < 0.005
    between = torch.corrcoef(y.T) - torch.eye(8)
    assert between.abs().max() < 0.01


def test_the_gradient_is_zero_for_dropped_elements():
    x = torch.randn(7, 5, 3, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_the_same_seed_drops_the_same_elements_and_evaluation_drops_none():
    x, layer = torch.ones(50, 51), Dropout(0.4)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(first, layer(x))
    assert not torch.equal(first, layer(x))
    assert layer.eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(1.0)(x).abs().sum() == 0
    assert Dropout(0.5)(x[:0]).shape == (0, 51)
