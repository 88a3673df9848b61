"""The loop: lengths, evaluation, early stop, best model, accumulation, and what it says when the loss breaks."""

import json
import math
import time

import pytest
import torch
from training_toy import Model, Toy, last_state, lines, train

from regard.errors import UserError
from regard.training import checkpoint, time_budget


def test_learns_and_keeps_the_best(tmp_path):
    task = Toy(size=200, batch=20)
    model, result = train(tmp_path, task=task, epochs=12, lr=0.02)
    assert result.steps == 120
    assert result.epochs == 12
    assert task.evaluations == 12
    assert result.best == result.metrics["accuracy"] > 0.8
    again = Model()
    checkpoint.load_weights(again, tmp_path / "model.safetensors")
    assert task.evaluate(again.eval())["accuracy"] == result.best
    assert task.evaluate(model)["accuracy"] == result.best


def test_metrics_file(tmp_path):
    train(tmp_path, steps=7, evaluate_every=3)
    found = lines(tmp_path)
    assert [line["step"] for line in found if "loss" in line] == list(range(1, 8))
    assert [line["step"] for line in found if "valid" in line] == [3, 6, 7]
    first = found[0]
    assert first["loss"] == pytest.approx(first["terms"]["label"] + 0.3 * first["terms"]["first"], rel=1e-6)
    assert first["tokens"] == 13 * 7
    assert [line["epoch"] for line in found if "loss" in line] == [1, 1, 1, 1, 1, 2, 2]
    assert any((tmp_path / "logs").iterdir())


def test_log_lines_are_means(tmp_path, monkeypatch):
    train(tmp_path / "all", steps=10)
    every = [line for line in lines(tmp_path / "all") if "loss" in line]
    monkeypatch.setattr("regard.training.metrics_log.MAX_LINES", 3)
    train(tmp_path / "few", steps=10)
    few = [line for line in lines(tmp_path / "few") if "loss" in line]
    assert [line["step"] for line in few] == [4, 8, 10]
    assert few[1]["loss"] == pytest.approx(sum(line["loss"] for line in every[4:8]) / 4)


def test_early_stop(tmp_path):
    class Flat(Toy):
        def evaluate(self, model):
            return {**super().evaluate(model), "accuracy": 0.5}

    _, result = train(tmp_path, task=Flat(), steps=50, evaluate_every=2, patience=3)
    assert result.stopped_early
    assert result.steps == 2 + 3 * 2
    assert result.best_step == 2
    assert lines(tmp_path)[-1]["step"] == 8


def test_lower_may_be_better(tmp_path):
    class Low(Toy):
        monitor, mode = "loss", "min"

    _, result = train(tmp_path, task=Low(), epochs=4)
    assert result.best == min(line["valid"]["loss"] for line in lines(tmp_path) if "valid" in line)


def test_without_validation_the_last_weights_are_saved(tmp_path):
    class Blind(Toy):
        def evaluate(self, model):
            return {}

    _, result = train(tmp_path, task=Blind(), steps=6)
    assert result.best is None
    kept = checkpoint.read_tensors(tmp_path / "model.safetensors")
    last = checkpoint.load_checkpoint(checkpoint.find_latest_checkpoint(tmp_path)).model
    assert all(torch.equal(kept[name], last[name]) for name in last)


@pytest.mark.parametrize("grad_accumulation", [3, 20])
def test_accumulation_equals_the_big_batch(tmp_path, grad_accumulation):
    one, _ = train(tmp_path / "one", steps=9, clip=0.5)
    many, _ = train(tmp_path / "many", steps=9, clip=0.5, grad_accumulation=grad_accumulation)
    for a, b in zip(lines(tmp_path / "one"), lines(tmp_path / "many"), strict=True):
        assert a.get("loss", 0) == pytest.approx(b.get("loss", 0), abs=1e-6)
    for a, b in zip(one.parameters(), many.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-5)


def test_first_step_is_the_gradient_of_the_mean_loss(tmp_path):
    """The weighted sum of means, worked out by hand on the whole batch."""
    task = Toy()
    torch.manual_seed(3)
    model = Model()
    indices = task.plan(0)[0]
    batch = task.batch(indices, 0)
    terms = task.loss(model, batch)
    wanted = terms["label"].sum / batch.counts["label"] + 0.3 * terms["first"].sum / batch.counts["first"]
    train(tmp_path, task=task, steps=1)
    assert lines(tmp_path)[0]["loss"] == pytest.approx(wanted.item(), rel=1e-6)


def test_clipping_bounds_the_step(tmp_path):
    """With one step of AdamW the sign alone counts, so look at Adam's first moment instead: (1 - b1) g."""
    for clip, name in ((0.01, "clipped"), (0.0, "free")):
        train(tmp_path / name, steps=1, clip=clip)
    norms = []
    for name in ("clipped", "free"):
        tensors = checkpoint.read_tensors(sorted((tmp_path / name / "state").iterdir())[-1] / "optimizer.safetensors")
        moments = [t.flatten() for key, t in tensors.items() if key.endswith("exp_avg")]
        norms.append(torch.cat(moments).norm().item() / 0.1)
    assert norms[0] == pytest.approx(0.01, rel=1e-3)
    assert norms[1] > 0.1


def test_nan_error_names_the_batch_and_keeps_the_weights(tmp_path):
    task = Toy(poison=5)
    plans = [batch.tolist() for epoch in range(2) for batch in task.plan(epoch)]
    where = next(i for i, batch in enumerate(plans) if 5 in batch)
    with pytest.raises(UserError) as error:
        train(tmp_path, task=task, steps=40, evaluate_every=1, checkpoint_seconds=0)
    text = str(error.value)
    assert f"step {where + 1} " in text
    assert "loss" in text
    assert "--lr" in text
    assert ", ".join(map(str, plans[where][:5])) in text
    newest = checkpoint.find_latest_checkpoint(tmp_path)
    assert newest is None or json.loads((newest / "state.json").read_text())["step"] == where
    if where:
        kept = checkpoint.read_tensors(tmp_path / "model.safetensors")
        assert all(tensor.isfinite().all() for tensor in kept.values())


def test_nan_error_names_the_right_step(tmp_path):
    """The losses are fetched rarely; the step named is the one where it happened, not where it was seen."""
    task = Toy(poison=5)
    plans = [batch.tolist() for epoch in range(2) for batch in task.plan(epoch)]
    where = next(i for i, batch in enumerate(plans) if 5 in batch)
    with pytest.raises(UserError, match=f"at step {where + 1} "):
        train(tmp_path, task=task, steps=30, evaluate_every=30)
    assert not (tmp_path / "model.safetensors").exists()


def test_infinite_weights_are_not_saved(tmp_path):
    class Steep(Toy):
        def loss(self, model, batch):
            terms = super().loss(model, batch)
            terms["label"].sum.register_hook(lambda g: g * float("inf"))
            return terms

    for clip in (0.0, 1.0):
        with pytest.raises(UserError, match="NaN or infinite at step 1 "):
            train(tmp_path / str(clip), task=Steep(), steps=5, clip=clip, checkpoint_seconds=0)
        assert checkpoint.find_latest_checkpoint(tmp_path / str(clip)) is None


def test_an_undefined_metric_is_not_the_best(tmp_path):
    class Undefined(Toy):
        def evaluate(self, model):
            return {"accuracy": math.nan if self.evaluations else super().evaluate(model)["accuracy"]}

    _, result = train(tmp_path, task=Undefined(), steps=4, evaluate_every=1)
    assert result.best_step == 1
    assert lines(tmp_path)[-1]["valid"] == {"accuracy": None}


def test_budget_equals_the_same_number_of_steps(tmp_path):
    begun = time.perf_counter()
    _, result = train(tmp_path / "budget", task=Toy(slow=0.05), budget=4.0, dropout=0.3)
    took = time.perf_counter() - begun
    assert 1.0 < took < 16
    assert 1 < result.steps < 80
    train(tmp_path / "steps", steps=result.steps, dropout=0.3)
    assert lines(tmp_path / "budget") == lines(tmp_path / "steps")
    assert last_state(tmp_path / "budget") == last_state(tmp_path / "steps")


def test_steps_within():
    assert time_budget.steps_within(100, 1.0, 0.0, 10) == 100
    assert time_budget.steps_within(100, 1.0, 5.0, 10) == 63  # 63 + 7 x 5 = 98; 64 would take 99 with 7 evaluations
    assert time_budget.steps_within(-3, 1.0, 1.0, 10) == 1


def test_a_finished_run_resumes_to_itself_and_can_be_extended(tmp_path):
    _, result = train(tmp_path, steps=5, decay="constant", warmup=0.0)
    before = last_state(tmp_path)
    _, again = train(tmp_path, steps=5, decay="constant", warmup=0.0, resume=True)
    assert last_state(tmp_path) == before
    assert again.best == result.best
    _, longer = train(tmp_path, steps=9, decay="constant", warmup=0.0, resume=True)
    assert longer.steps == 9
    train(tmp_path / "at once", steps=9, decay="constant", warmup=0.0)
    assert last_state(tmp_path)["model.safetensors"] == last_state(tmp_path / "at once")["model.safetensors"]


def test_a_run_is_not_overwritten(tmp_path):
    train(tmp_path, steps=2)
    with pytest.raises(UserError, match="--resume"):
        train(tmp_path, steps=2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "--epochs"),
        ({"steps": 1, "epochs": 1}, "--epochs and --steps"),
        ({"steps": 0}, "train.steps"),
        ({"steps": 1, "lr": -1.0}, "train.lr"),
        ({"steps": 1, "grad_accumulation": 0}, "train.grad_accumulation"),
        ({"steps": 1, "warmup": 1.5}, "train.warmup"),
        ({"steps": 1, "optimizer": "adam"}, "adamw"),
        ({"steps": 1, "decay": "cosin"}, "cosine"),
        ({"steps": 1, "precision": "bf16"}, "bf16-mixed"),
        ({"steps": 1, "strategy": "dpp"}, "dpp"),
    ],
)
def test_invalid_train_settings(tmp_path, given, words):
    with pytest.raises(UserError, match=words):
        train(tmp_path, **given)


def test_nothing_to_train_on(tmp_path):
    with pytest.raises(UserError, match="no examples"):
        train(tmp_path, task=Toy(size=0), epochs=1)
