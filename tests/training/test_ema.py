"""The moving average of the weights: its value, that it is saved and evaluated, and that it survives a stop."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from training_toy import Model, Toy, last_state, lines, train

from regard.errors import UserError
from regard.training import checkpoint, loop
from regard.training.ema import EMA


def test_constant_weights_equal_their_average():
    params = [torch.randn(5, 3), torch.randn(7)]
    before = [p.clone() for p in params]
    average = EMA(params, 0.999)
    for _ in range(50):
        average.update()
    assert all(torch.equal(a, b) for a, b in zip(average.averages, before, strict=True))


def test_ema_is_the_weighted_mean_of_all_weights():
    random = torch.Generator().manual_seed(0)
    p, seen = torch.zeros(4, dtype=torch.float64), []
    average = EMA([p], 0.8)
    for _ in range(9):
        p.copy_(torch.randn(4, dtype=torch.float64, generator=random))
        seen.append(p.clone())
        average.update()
        weights = torch.tensor([0.8 ** (len(seen) - 1 - s) for s in range(len(seen))], dtype=torch.float64)
        wanted = (weights[:, None] * torch.stack(seen)).sum(0) / weights.sum()
        torch.testing.assert_close(average.averages[0], wanted)


def test_parameters_are_averaged_for_a_while_and_restored():
    p = torch.randn(3)
    average = EMA([p], 0.5)
    average.update()
    p.add_(1)
    average.update()
    raw, mean = p.clone(), average.averages[0].clone()

    def look_and_fail():
        with average.average_parameters():
            assert torch.equal(p, mean)
            raise KeyError

    with pytest.raises(KeyError):
        look_and_fail()
    assert torch.equal(p, raw)
    assert torch.equal(average.averages[0], mean)


def averaged_by_hand(steps: int, decay: float, monkeypatch, tmp_path) -> dict[str, torch.Tensor]:
    """The average of the weights after each step of a run that keeps none itself."""
    seen = []

    def noting(self, indices, epoch, lr, step=loop.Loop.step):
        done = step(self, indices, epoch, lr)
        seen.append({name: t.clone() for name, t in self.model.state_dict().items()})
        return done

    with monkeypatch.context() as patch:
        patch.setattr(loop.Loop, "step", noting)
        train(tmp_path / "raw", steps=steps)
    weights = [decay ** (steps - 1 - s) for s in range(steps)]
    return {n: sum(w * s[n] for w, s in zip(weights, seen, strict=True)) / sum(weights) for n in seen[0]}


def test_the_saved_and_evaluated_model_is_the_average(tmp_path, monkeypatch):
    wanted = averaged_by_hand(9, 0.7, monkeypatch, tmp_path)
    task = Toy()
    model, result = train(tmp_path / "run", task=task, steps=9, evaluate_every=9, ema_decay=0.7)
    kept = checkpoint.read_tensors(tmp_path / "run" / "model.safetensors")
    state = checkpoint.load_checkpoint(checkpoint.find_latest_checkpoint(tmp_path / "run"))
    for name, value in wanted.items():
        torch.testing.assert_close(kept[name], value, rtol=1e-5, atol=1e-6)
        assert torch.equal(state.ema[name], kept[name])
        assert torch.equal(model.state_dict()[name], kept[name])
    assert not torch.equal(state.model["hidden.weight"], kept["hidden.weight"])
    assert task.evaluate(model)["loss"] == result.metrics["loss"]
    again = Model()
    checkpoint.load_weights(again, {n: t.clone() for n, t in state.model.items()})
    assert task.evaluate(again.eval())["loss"] != result.metrics["loss"]


def test_ema_does_not_change_training(tmp_path):
    train(tmp_path / "without", steps=9, dropout=0.2)
    train(tmp_path / "with", steps=9, dropout=0.2, ema_decay=0.9, evaluate_every=2)
    one, other = last_state(tmp_path / "without"), last_state(tmp_path / "with")
    assert one["model.safetensors"] == other["model.safetensors"]
    assert one["optimizer.safetensors"] == other["optimizer.safetensors"]
    assert "ema.safetensors" not in one  # it costs nothing where it is not asked for


@pytest.mark.parametrize("stop", [1, 5])
def test_resumed_to_the_same_bytes(tmp_path, monkeypatch, stop):
    options = {"steps": 12, "dropout": 0.2, "ema_decay": 0.9, "evaluate_every": 3}
    train(tmp_path / "whole", **options)

    class Stop(Exception):
        pass

    def stop_after(self, requests, bar, after=loop.Loop._finish_step):
        after(self, requests, bar)
        if self.state.step == stop:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(loop.Loop, "_finish_step", stop_after)
        with pytest.raises(Stop):
            train(tmp_path / "cut", **options, checkpoint_seconds=0)
    train(tmp_path / "cut", **options, resume=True)
    assert last_state(tmp_path / "cut") == last_state(tmp_path / "whole")
    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")
    kept = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("cut", "whole")]
    assert kept[0] == kept[1]


def test_timing_a_budget_leaves_no_trace_in_the_average(tmp_path):
    _, result = train(tmp_path / "budget", task=Toy(slow=0.02), budget=1.5, ema_decay=0.9)
    train(tmp_path / "steps", steps=result.steps, ema_decay=0.9)
    assert last_state(tmp_path / "budget") == last_state(tmp_path / "steps")


@pytest.mark.parametrize("decay", [0.0, 1.0, -1.0])
def test_invalid_decay(tmp_path, decay):
    with pytest.raises(UserError, match=r"train\.ema_decay"):
        train(tmp_path, steps=1, ema_decay=decay)


@pytest.mark.slow
def test_two_processes_have_the_average_of_one(tmp_path):
    options = {"steps": 8, "evaluate_every": 4, "ema_decay": 0.8}
    train(tmp_path / "one", **options)
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK")}
    script = Path(__file__).with_name("training_toy.py")
    given = {"folder": str(tmp_path / "two"), **options, "num_devices": 2, "strategy": "ddp"}
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(given)],
        env={**clean, "PYTHONPATH": str(Path(__file__).parents[2])}, capture_output=True, text=True, timeout=250,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    one, two = (checkpoint.read_tensors(tmp_path / n / "model.safetensors") for n in ("one", "two"))
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=1e-5)
