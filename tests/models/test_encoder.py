"""The encoder that names a class: pooled in several hops, with a penalty on hops that look alike."""

from __future__ import annotations

import pytest
import torch

from regard.errors import UserError
from regard.inspect import record
from regard.models import encoder

V, CLASSES, DIM = 31, 3, 12


def build(**more) -> encoder.Encoder:
    torch.manual_seed(0)
    return encoder.Config(dim=DIM, layers=1, heads=2, hidden=13, **more).build(V, CLASSES).eval()


def batch():
    mask = torch.arange(11) < torch.tensor([[11], [4]])
    return torch.randint(6, V, (2, 11), generator=torch.Generator().manual_seed(0)) * mask, mask


def test_one_hop_without_a_penalty_is_the_default():
    model = build()
    out = model(*batch())
    assert model.head.in_features == DIM
    assert out.logits.shape == (2, CLASSES)
    assert out.terms == {}


def test_several_hops_are_read_side_by_side_and_seen():
    model = build(hops=3)
    with record(model, "pool.attend") as seen:
        out = model(*batch())
    assert model.head.in_features == 3 * DIM
    assert out.logits.shape == (2, CLASSES)
    assert seen["pool.attend"].shape == (2, 1, 3, 11)
    assert seen.calls[0].places.rows == "hops"


def test_the_penalty_is_that_of_the_weights_that_are_read():
    """‖A Aᵀ - I‖²_F of each document, summed, padding left out; and it trains the pooling."""
    model, (ids, mask) = build(hops=3, penalty=0.5), batch()
    with record(model, "pool.attend") as seen:
        total, weight = model(ids, mask).terms["penalty"]
    a = seen["pool.attend"][:, 0]
    assert not a[1, :, 4:].any()
    assert weight == 0.5
    torch.testing.assert_close(total, ((a @ a.transpose(1, 2) - torch.eye(3)) ** 2).sum())
    total.backward()
    assert model.pool.context.weight.grad.abs().max() > 0


@pytest.mark.parametrize("sizes", [{"layers": 0}, {"hops": 0}], ids=str)
def test_sizes_below_one_are_told(sizes):
    ((name, given),) = sizes.items()
    with pytest.raises(UserError, match=f"{name} must be at least 1, and was given {given}"):
        encoder.Config(dim=DIM, heads=2, **sizes).build(V, CLASSES)
    with pytest.raises(UserError, match="hidden must be at least 1, and was given -1"):
        encoder.Config(dim=DIM, heads=2, hidden=-1).build(V, CLASSES)
