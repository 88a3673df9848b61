"""Ensembles: their predictions, their loss, and their attention."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from regard.data.read_table import Table
from regard.errors import UserError
from regard.inspect import attention_maps, record, token_attribution
from regard.models import han, self_attentive
from regard.models.ensemble import Ensemble
from regard.tasks.base_run import Run
from regard.tasks.classify.objective import ClassifyObjective, DocumentBatch
from regard.tasks.train import train
from regard.testing import check_model

VOCAB, CLASSES = 31, 3


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    mask = torch.arange(11) < torch.tensor([11, 7])[:, None]
    return torch.randint(6, VOCAB, mask.shape) * mask, mask, (torch.arange(11) // 5).expand(2, -1)


def build_ensemble(size: int = 3) -> Ensemble:
    torch.manual_seed(0)
    return Ensemble([han.HANConfig(13, 7, 11).build(VOCAB, CLASSES) for _ in range(size)]).eval()


def test_an_ensemble_keeps_the_contract():
    check_model(build_ensemble(2), *batch())


def test_probabilities_are_the_geometric_mean_of_the_members():
    model = build_ensemble()
    probabilities = [F.softmax(member(*batch()).logits, -1) for member in model.members]
    product = (probabilities[0] * probabilities[1] * probabilities[2]) ** (1 / 3)
    torch.testing.assert_close(F.softmax(model(*batch()).logits, -1), product / product.sum(-1, keepdim=True))


def test_each_member_is_trained_on_its_own_loss():
    model, labels = build_ensemble(), torch.tensor([2, 0])
    objective = ClassifyObjective.__new__(ClassifyObjective)
    objective.class_weights, objective.label_smoothing = None, 0.0
    ids, mask, sentences = batch()
    objective.loss(model, DocumentBatch(ids, mask, sentences, labels, 18, 2.0))["classes"].sum.backward()
    for member in model.members:
        gradient = member.get_parameter("head.weight").grad
        expected = torch.autograd.grad(
            F.cross_entropy(member(*batch()).logits, labels, reduction="sum"), member.get_parameter("head.weight")
        )[0]
        torch.testing.assert_close(gradient, expected / 3)


def test_the_penalty_is_the_mean_of_the_members():
    torch.manual_seed(0)
    config = self_attentive.SelfAttentiveConfig(13, 7, 11, hops=3, penalty=0.5, features=5)
    model = Ensemble([config.build(VOCAB, CLASSES) for _ in range(2)]).eval()
    (total, weight) = model(*batch()).terms["penalty"]
    penalties = [member(*batch()).terms["penalty"] for member in model.members]
    torch.testing.assert_close(total, (penalties[0][0] + penalties[1][0]) / 2)
    assert weight == penalties[0][1]


def test_attribution_is_the_mean_of_all_members():
    model = build_ensemble()
    sizes = {"tokens": 11, "sentences": 3, "document": 1}
    with record(model) as recording:
        model(*batch())
    attribution = token_attribution(attention_maps(recording, 0, sizes))
    assert attribution is not None
    member_weights = []
    for member in model.members:
        with record(member) as recording:
            member(*batch())
        member_attribution = token_attribution(attention_maps(recording, 0, sizes))
        assert member_attribution is not None
        member_weights.append(member_attribution.token_weights)
    torch.testing.assert_close(attribution.token_weights, torch.stack(member_weights).mean(0))
    assert "3 members" in attribution.description


def test_an_ensemble_is_trained_loaded_and_inspected(tmp_path: Path):
    texts = [f"a {word} day number {i}" for i in range(40) for word in ("lovely", "dreadful")]
    table = Table(texts, ["good", "bad"] * 40, [], "f", 80)
    settings = {
        "ensemble_size": 2,
        "model": {"embed": 12, "hidden": 8, "attention": 8, "ngrams": 2, "table_size": 50},
        "train": {"steps": 40, "lr": 0.02},
    }
    run = train("classify", table, model="han", out=tmp_path / "run", settings=settings, progress=False)
    again = Run.load(tmp_path / "run")
    assert run.predict("a dreadful day").label == "bad"
    assert again.predict("a dreadful day") == run.predict("a dreadful day")
    assert again.look("a lovely day").data["weights_description"].endswith("mean of 2 members")
    first, second = (again.model.get_submodule(f"members.{i}.head").weight for i in (0, 1))
    assert not torch.equal(first, second)
    warm_started = train(
        "classify",
        table,
        out=tmp_path / "more",
        warm_start=tmp_path / "run",
        settings=settings | {"train": {"steps": 1}},
        progress=False,
    )
    assert warm_started.settings.ensemble_size == 2


def test_every_member_starts_from_the_same_run(tmp_path: Path):
    texts = [f"a {word} day number {i}" for i in range(20) for word in ("lovely", "dreadful")]
    table = Table(texts, ["good", "bad"] * 20, [], "f", 40)
    shape = {
        "model": {"embed": 12, "hidden": 8, "attention": 8},
        "train": {"steps": 1, "lr": 1e-9, "weight_decay": 0.0},
    }
    one = train("classify", table, model="han", out=tmp_path / "one", settings=shape, progress=False)
    two = train(
        "classify",
        table,
        out=tmp_path / "two",
        warm_start=tmp_path / "one",
        settings=shape | {"ensemble_size": 2},
        progress=False,
    )
    for i in (0, 1):
        torch.testing.assert_close(
            two.model.get_parameter(f"members.{i}.embedding.weight"), one.model.get_parameter("embedding.weight")
        )


def test_an_ensemble_of_fitted_models_is_an_error(tmp_path: Path):
    table = Table(["good day", "bad day"] * 10, ["good", "bad"] * 10, [], "f", 20)
    with pytest.raises(UserError, match="leave out ensemble_size"):
        train("classify", table, model="nb-svm", out=tmp_path / "r", settings={"ensemble_size": 3})
    with pytest.raises(UserError, match="1 or more"):
        train("classify", table, model="han", out=tmp_path / "r", settings={"ensemble_size": 0})
