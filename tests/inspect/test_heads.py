"""Heads: importance, pruning, swapping between models, distance and rollout."""

from __future__ import annotations

import pytest
import torch

from regard.errors import UserError
from regard.inspect import ablate, attention_by_distance, edit, head_importance, prune, record, rollout, swap, uniform
from regard.models.bert import BERT

LAYERS = ["layers.0.attention.attend", "layers.1.attention.attend"]
IDS = torch.tensor([[4, 9, 9, 17, 2, 5, 1]])


def build(seed: int) -> BERT:
    torch.manual_seed(seed)
    model = BERT(23, dim=12, hidden=16, layers=2, heads=3, positions="learned:length=16").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def run(model: BERT) -> torch.Tensor:
    return model(IDS)[0]


@pytest.mark.parametrize("head", [0, 1, 2])
@pytest.mark.parametrize("layer", LAYERS)
def test_pruning_equals_ablating(layer: str, head: int):
    model = build(0)
    before = run(model)
    with edit(model, layer, ablate([head])):
        expected = run(model)
    prune(model, layer, [head])
    torch.testing.assert_close(run(model), expected, atol=1e-6, rtol=1e-6)
    assert not torch.allclose(run(model), before, atol=1e-3)
    assert float(model.layers[0].attention.out.bias.detach().abs().max()) > 0  # the bias is kept


def test_invalid_heads_are_reported():
    model = build(0)
    with pytest.raises(UserError, match="has heads 0 to 2, and 3 was given"):
        prune(model, LAYERS[0], [3])
    with pytest.raises(UserError, match="no attention at"):
        prune(model, "layers.9.attention.attend", [0])


def test_importance_is_the_change_by_each_ablation():
    model = build(0)
    prune(model, LAYERS[1], [2])

    def evaluate():
        return {"first": float(run(model)[0, 0, 0])}

    before, rows = head_importance(model, evaluate)
    assert before == evaluate()
    result = {(row.layer, row.head, row.intervention): row for row in rows}
    assert len(rows) == 2 * (3 + 2)
    assert result[LAYERS[1], 2, "ablate"].change["first"] == pytest.approx(0, abs=1e-6)
    with edit(model, LAYERS[0], ablate([1])):
        assert result[LAYERS[0], 1, "ablate"].metrics == evaluate()
    with edit(model, LAYERS[0], ablate()):
        assert result[LAYERS[0], None, "ablate"].metrics == evaluate()
    with edit(model, LAYERS[0], uniform()):
        assert result[LAYERS[0], None, "uniform"].metrics == evaluate()
    assert abs(result[LAYERS[0], 1, "ablate"].change["first"]) > 1e-4


def test_heads_can_be_swapped_between_models():
    one, other = build(0), build(1)
    with torch.no_grad(), record(other) as source:
        other(IDS)
    with edit(one, LAYERS[0], swap(source[LAYERS[0]], [1], source_heads=[2])), record(one) as recorded:
        run(one)
    assert torch.equal(recorded[LAYERS[0]][:, 1], source[LAYERS[0]][:, 2])
    assert not torch.equal(recorded[LAYERS[0]][:, 0], source[LAYERS[0]][:, 0])
    expected = run(one)
    with torch.no_grad(), record(one) as recording:
        one(IDS)
    with edit(one, LAYERS[0], swap(recording[LAYERS[0]])):
        torch.testing.assert_close(run(one), expected)
    with edit(one, LAYERS[0], swap(source[LAYERS[0]][..., :3])), pytest.raises(UserError, match="same tokens"):
        run(one)


def test_uniform_attention_of_some_heads():
    model = build(0)
    with edit(model, LAYERS[0], uniform([1])), record(model) as recorded:
        run(model)
    assert torch.allclose(recorded[LAYERS[0]][:, 1], torch.full((1, 7, 7), 1 / 7))
    assert not torch.allclose(recorded[LAYERS[0]][:, 0], torch.full((1, 7, 7), 1 / 7), atol=1e-3)


def test_distances_of_known_heads():
    previous, diagonal = torch.diag(torch.ones(4), -1), torch.eye(5)
    previous[0, 0] = 1.0
    result = attention_by_distance(torch.stack([previous, diagonal, torch.full((5, 5), 0.2)]))
    assert result.distances.tolist() == list(range(-4, 5))
    assert result.fraction[0].tolist() == pytest.approx([0, 0, 0, 0.8, 0.2, 0, 0, 0, 0])
    assert result.fraction[1, 4] == 1
    assert result.mean.tolist() == pytest.approx([0.8, 0.0, 1.6])
    assert result.fraction.sum(1).tolist() == pytest.approx([1, 1, 1])


def test_rollout_of_known_layers():
    swapped = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    result = rollout([swapped, swapped])
    assert result[0].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    step = torch.tensor([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    result = rollout([step, step])
    assert result[1, 2].tolist() == pytest.approx([0.25, 0.5, 0.25])
    assert result.sum(-1).allclose(torch.ones(2, 3))
    no_keys = torch.zeros(1, 2, 2)
    assert rollout([no_keys])[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
