"""Heads: which matter, taken out for good, swapped between models; how far they look; rollout through layers."""

from __future__ import annotations

import pytest
import torch

from regard.errors import UserError
from regard.inspect import ablate, attention_by_distance, edit, importance, prune, record, rollout, swap, uniform
from regard.models.bert import BERT, BERTConfig

SITES = ["layers.0.attention.attend", "layers.1.attention.attend"]
IDS = torch.tensor([[4, 9, 9, 17, 2, 5, 1]])


def made(seed: int) -> BERT:
    torch.manual_seed(seed)
    model = BERT(BERTConfig(vocab=23, dim=12, hidden=16, layers=2, heads=3, positions="learned:length=16")).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def said(model: BERT) -> torch.Tensor:
    return model(IDS)[0]


@pytest.mark.parametrize("head", [0, 1, 2])
@pytest.mark.parametrize("site", SITES)
def test_a_pruned_head_is_an_ablated_one(site: str, head: int):
    model = made(0)
    before = said(model)
    with edit(model, site, ablate([head])):
        wanted = said(model)
    prune(model, site, [head])
    torch.testing.assert_close(said(model), wanted, atol=1e-6, rtol=1e-6)
    assert not torch.allclose(said(model), before, atol=1e-3)
    assert float(model.layers[0].attention.out.bias.detach().abs().max()) > 0  # the bias is not the head's


def test_what_cannot_be_pruned_is_said():
    model = made(0)
    with pytest.raises(UserError, match="has heads 0 to 2, and 3 was given"):
        prune(model, SITES[0], [3])
    with pytest.raises(UserError, match="no attention at"):
        prune(model, "layers.9.attention.attend", [0])


def test_importance_is_what_each_ablation_changes():
    model = made(0)
    prune(model, SITES[1], [2])

    def measure():
        return {"first": float(said(model)[0, 0, 0])}

    before, rows = importance(model, measure)
    assert before == measure()
    found = {(row.layer, row.head, row.intervention): row for row in rows}
    assert len(rows) == 2 * (3 + 2)
    assert found[SITES[1], 2, "ablate"].change["first"] == pytest.approx(0, abs=1e-6)
    with edit(model, SITES[0], ablate([1])):
        assert found[SITES[0], 1, "ablate"].measured == measure()
    with edit(model, SITES[0], ablate()):
        assert found[SITES[0], None, "ablate"].measured == measure()
    with edit(model, SITES[0], uniform()):
        assert found[SITES[0], None, "uniform"].measured == measure()
    assert abs(found[SITES[0], 1, "ablate"].change["first"]) > 1e-4


def test_heads_are_swapped_between_models():
    one, other = made(0), made(1)
    with torch.no_grad(), record(other) as theirs:
        other(IDS)
    with edit(one, SITES[0], swap(theirs[SITES[0]], [1], of=[2])), record(one) as seen:
        said(one)
    assert torch.equal(seen[SITES[0]][:, 1], theirs[SITES[0]][:, 2])
    assert not torch.equal(seen[SITES[0]][:, 0], theirs[SITES[0]][:, 0])
    same = said(one)
    with torch.no_grad(), record(one) as mine:
        one(IDS)
    with edit(one, SITES[0], swap(mine[SITES[0]])):
        torch.testing.assert_close(said(one), same)
    with edit(one, SITES[0], swap(theirs[SITES[0]][..., :3])), pytest.raises(UserError, match="same tokens"):
        said(one)


def test_uniform_of_some_heads_only():
    model = made(0)
    with edit(model, SITES[0], uniform([1])), record(model) as seen:
        said(model)
    assert torch.allclose(seen[SITES[0]][:, 1], torch.full((1, 7, 7), 1 / 7))
    assert not torch.allclose(seen[SITES[0]][:, 0], torch.full((1, 7, 7), 1 / 7), atol=1e-3)


def test_distances_of_heads_that_are_known():
    before, here = torch.diag(torch.ones(4), -1), torch.eye(5)
    before[0, 0] = 1.0
    found = attention_by_distance(torch.stack([before, here, torch.full((5, 5), 0.2)]))
    assert found.at.tolist() == list(range(-4, 5))
    assert found.share[0].tolist() == pytest.approx([0, 0, 0, 0.8, 0.2, 0, 0, 0, 0])
    assert found.share[1, 4] == 1
    assert found.mean.tolist() == pytest.approx([0.8, 0.0, 1.6])
    assert found.share.sum(1).tolist() == pytest.approx([1, 1, 1])


def test_rollout_of_layers_that_are_known():
    turn = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    found = rollout([turn, turn])
    assert found[0].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    step = torch.tensor([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    found = rollout([step, step])
    assert found[1, 2].tolist() == pytest.approx([0.25, 0.5, 0.25])
    assert found.sum(-1).allclose(torch.ones(2, 3))
    blind = torch.zeros(1, 2, 2)
    assert rollout([blind])[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
