"""Optimizers and the schedule."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from training_toy import Model, lines, train

from regard.config.settings import TrainSettings
from regard.training import optim

SETTINGS = TrainSettings(steps=1, optimizer="muon", lr=0.1, weight_decay=0.5)


@given(st.integers(1, 5000), st.floats(0, 1), st.sampled_from(["cosine", "linear", "constant"]))
def test_schedule_rises_then_falls(total, warmup, decay):
    some = range(total) if total <= 60 else sorted({*range(30), *range(0, total, 97), *range(total - 30, total)})
    shares = [optim.lr_multiplier(step, total, warmup, decay) for step in some]
    assert all(0 < share <= 1 for share in shares)
    rising = round(warmup * total)
    climbing = [share for share, step in zip(shares, some, strict=True) if step < rising]
    assert all(a < b for a, b in itertools.pairwise(climbing))
    falling = [share for share, step in zip(shares, some, strict=True) if step >= rising]
    assert all(a >= b for a, b in itertools.pairwise(falling))
    if rising:
        assert optim.lr_multiplier(rising - 1, total, warmup, decay) == 1.0


def test_schedule_by_hand():
    assert [optim.lr_multiplier(step, 10, 0.2, "linear") for step in range(4)] == [0.5, 1.0, 1.0, 0.875]
    assert optim.lr_multiplier(6, 10, 0.2, "cosine") == pytest.approx(0.5)
    assert optim.lr_multiplier(9, 10, 0.2, "constant") == 1.0


def test_parameter_groups():
    kinds = optim.group_parameters(Model(), "muon")
    assert kinds == {
        "embed.weight": "no_decay",
        "hidden.weight": "muon",
        "hidden.bias": "no_decay",
        "norm.weight": "no_decay",
        "norm.bias": "no_decay",
        "first.weight": "muon",
        "first.bias": "no_decay",
        "label.weight": "decay",
        "label.bias": "no_decay",
    }
    assert optim.group_parameters(Model(tied=True), "muon").get("first.weight") is None  # it is the embedding
    assert set(optim.group_parameters(Model(), "adamw").values()) == {"decay", "no_decay"}
    frozen = Model()
    frozen.hidden.weight.requires_grad_(False)
    assert "hidden.weight" not in optim.group_parameters(frozen, "muon")
    marked = Model()
    marked.first.muon = False
    assert optim.group_parameters(marked, "muon")["first.weight"] == "decay"


def test_no_decay_group_is_not_decayed():
    groups = [group for o in optim.build_optimizers(Model(), SETTINGS) for group in o.param_groups]
    assert [group["weight_decay"] for group in groups] == [0.5, 0.5, 0.0]
    assert all(p.ndim == 2 for group in groups[:2] for p in group["params"])


@pytest.mark.parametrize("shape", [(7, 7), (5, 31), (31, 5), (64, 32)])
def test_orthogonalize(shape):
    torch.manual_seed(0)
    batch = torch.randn(3, *shape)
    turned = optim.orthogonalize(batch, steps=12)
    values = torch.linalg.svdvals(turned)
    assert values.min() > 0.6
    assert values.max() < 1.3
    # It is near U Vᵀ, and each of a batch is done as if alone.
    u, _, v = torch.linalg.svd(batch[1], full_matrices=False)
    assert nn.functional.cosine_similarity(turned[1].flatten(), (u @ v).flatten(), dim=0) > 0.97
    torch.testing.assert_close(optim.orthogonalize(batch)[1], optim.orthogonalize(batch[1:2])[0])
    assert optim.orthogonalize(torch.zeros(1, *shape)).isfinite().all()


def test_five_steps_are_enough_for_a_usual_gradient():
    torch.manual_seed(0)
    values = torch.linalg.svdvals(optim.orthogonalize(torch.randn(4, 32, 96)))
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_muon_step_by_hand():
    """One step from rest: p (1 - lr decay) - lr 0.2 sqrt(max) U Vᵀ, whose rms is that of AdamW, about 0.2."""
    torch.manual_seed(0)
    p = nn.Parameter(torch.randn(48, 24))
    before = p.detach().clone()
    p.grad = torch.randn(48, 24)
    muon = optim.Muon([p], lr=0.1, weight_decay=0.5)
    muon.step()
    update = (before * (1 - 0.1 * 0.5) - p.detach()) / 0.1
    wanted = 0.2 * math.sqrt(48) * optim.orthogonalize(p.grad[None])[0]
    torch.testing.assert_close(update, wanted, rtol=1e-3, atol=1e-4)
    assert update.square().mean().sqrt().item() == pytest.approx(0.2, rel=0.2)


def test_packed_matrices_are_split():
    torch.manual_seed(0)
    gradient = torch.randn(3 * 8, 8)
    packed = nn.Parameter(torch.zeros(24, 8))
    packed.muon_splits = 3
    parts = [nn.Parameter(torch.zeros(8, 8)) for _ in range(3)]
    packed.grad = gradient
    for part, g in zip(parts, gradient.chunk(3), strict=True):
        part.grad = g.clone()
    optim.Muon([packed]).step()
    optim.Muon(parts).step()
    torch.testing.assert_close(packed.detach(), torch.cat([p.detach() for p in parts]))
    packed.muon_splits = 5
    with pytest.raises(ValueError, match="divisible by 5"):
        optim.Muon([packed])


def test_gates_are_split():
    model = nn.ModuleDict({"gru": nn.GRU(8, 16), "lstm": nn.LSTMCell(8, 16), "head": nn.Linear(16, 4)})
    found = optim.hidden_matrices(model)
    assert len(found) == 4
    assert [p.muon_splits for p in found] == [3, 3, 4, 4]
    assert [p.shape[0] // p.muon_splits for p in found] == [16] * 4


def test_muon_trains(tmp_path):
    _, result = train(tmp_path, optimizer="muon", epochs=15)
    losses = [line["loss"] for line in lines(tmp_path) if "loss" in line]
    assert losses[-1] < 0.6 * losses[0]
    assert result.best is not None
