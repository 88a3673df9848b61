"""Checkpoints: whole or not taken, free of pickle, and safe on a full disk."""

import errno
import json
import shutil
import subprocess

import pytest
import torch
from training_toy import Model, last_state, train

from regard.config.messages import collect_messages
from regard.config.settings import TrainSettings
from regard.errors import UserError
from regard.training import atomic_write, checkpoint, optim


def make(step: int, size: int = 5) -> checkpoint.Checkpoint:
    torch.manual_seed(step)
    model = {"a": torch.randn(size, 3), "b": torch.zeros(())}
    return checkpoint.Checkpoint(model, [], [{"cpu": torch.get_rng_state()}], {"step": step, "best": 0.1 + 0.2})


def test_round_trip(tmp_path):
    saved = make(7)
    path = checkpoint.save_checkpoint(tmp_path, saved)
    assert path.name == "step-0000007"
    assert checkpoint.find_latest_checkpoint(tmp_path) == path
    again = checkpoint.load_checkpoint(path)
    assert again.state == saved.state
    assert torch.equal(again.model["a"], saved.model["a"])
    assert again.model["b"].shape == ()
    assert torch.equal(again.rng[0]["cpu"], saved.rng[0]["cpu"])
    assert not list((tmp_path / "state").glob("*.tmp"))


def test_the_newest_two_are_kept(tmp_path):
    for step in (1, 2, 10):
        checkpoint.save_checkpoint(tmp_path, make(step))
    assert sorted(p.name for p in (tmp_path / "state").iterdir()) == ["step-0000002", "step-0000010"]


@pytest.mark.parametrize("damage", ["cut", "flip", "missing", "no manifest", "half manifest", "empty manifest"])
def test_a_damaged_checkpoint_is_skipped(tmp_path, damage):
    old = checkpoint.save_checkpoint(tmp_path, make(1))
    new = checkpoint.save_checkpoint(tmp_path, make(2))
    file, manifest = new / "model.safetensors", new / "manifest.json"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "flip":
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    elif damage == "missing":
        file.unlink()
    elif damage == "no manifest":
        manifest.unlink()
    else:
        manifest.write_text("{}" if damage.startswith("empty") else manifest.read_text()[:40])
    with collect_messages() as messages:
        assert checkpoint.find_latest_checkpoint(tmp_path) == old
    assert len(messages) == 1
    assert str(new) in messages[0]
    shutil.rmtree(old)
    with pytest.raises(UserError, match="damaged"):
        checkpoint.find_latest_checkpoint(tmp_path)


def test_an_unfinished_checkpoint_is_not_used(tmp_path):
    old = checkpoint.save_checkpoint(tmp_path, make(1))
    shutil.copytree(old, tmp_path / "state" / "step-0000002.tmp")
    assert checkpoint.find_latest_checkpoint(tmp_path) == old
    shutil.rmtree(old)
    assert checkpoint.find_latest_checkpoint(tmp_path) is None  # nothing was ever finished: start anew


def test_a_run_falls_back_and_ends_the_same(tmp_path):
    train(tmp_path / "whole", steps=8, dropout=0.2)
    train(tmp_path / "hurt", steps=8, dropout=0.2, checkpoint_seconds=0)
    newest = sorted((tmp_path / "hurt" / "state").iterdir())[-1]
    (newest / "optimizer.safetensors").write_bytes(b"")
    (tmp_path / "hurt" / "model.safetensors").unlink()
    train(tmp_path / "hurt", steps=8, dropout=0.2, resume=True)
    assert last_state(tmp_path / "hurt") == last_state(tmp_path / "whole")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk(tmp_path, monkeypatch, code):
    train(tmp_path, steps=4, decay="constant")
    before = last_state(tmp_path)
    write = atomic_write.write_synced

    def full(path, content):
        if path.name == "optimizer.safetensors":
            path.write_bytes(content[: len(content) // 2])
            raise OSError(code, "no room")
        return write(path, content)

    monkeypatch.setattr(atomic_write, "write_synced", full)
    with pytest.raises(UserError, match=r"no space left on disk.*MB.*--resume") as error:
        train(tmp_path, steps=8, decay="constant", resume=True)
    assert str(tmp_path) in str(error.value)
    assert last_state(tmp_path) == before
    assert not list((tmp_path / "state").glob("*.tmp"))
    monkeypatch.setattr(atomic_write, "write_synced", write)
    _, result = train(tmp_path, steps=8, decay="constant", resume=True)
    assert result.steps == 8


def test_other_disk_errors_are_not_called_full(tmp_path, monkeypatch):
    def broken(path, content):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(atomic_write, "write_synced", broken)
    with pytest.raises(OSError, match="broken"):
        checkpoint.save_checkpoint(tmp_path, make(1))


def test_a_really_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("may not mount a small disk here")
    try:
        old = checkpoint.save_checkpoint(disk, make(1))
        with pytest.raises(UserError, match="no space left on disk"):
            checkpoint.save_checkpoint(disk, make(2, size=100_000))
        assert checkpoint.find_latest_checkpoint(disk) == old
        assert [p.name for p in (disk / "state").iterdir()] == [old.name]
        with pytest.raises(UserError, match="no space left on disk"):
            checkpoint.save_weights(disk / "model.safetensors", {"a": torch.zeros(100_000)})
        assert not (disk / "model.safetensors").exists()
        assert not list(disk.glob("*.tmp"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("make_one", ["adamw", "fused", "sgd", "adagrad", "muon"])
def test_optimizer_states_survive(make_one):
    def build(model):
        match make_one:
            case "muon":
                return optim.build_optimizers(model, TrainSettings(steps=1, optimizer="muon"))
            case "sgd":
                return [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)]
            case "adagrad":
                return [torch.optim.Adagrad(model.parameters(), lr=0.1)]
            case _:
                return [torch.optim.AdamW(model.parameters(), fused=make_one == "fused", betas=(0.8, 0.9))]

    def step(model, optimizers, seed):
        torch.manual_seed(seed)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        for optimizer in optimizers:
            optimizer.step()

    one, two = Model(), Model()
    ones, twos = build(one), build(two)
    step(one, ones, 1)
    tensors, scalars = checkpoint.flatten_optimizer_states([o.state_dict() for o in ones])
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    scalars = json.loads(json.dumps(scalars))
    checkpoint.load_weights(two, {name: t.clone() for name, t in one.state_dict().items()})
    for optimizer, state in zip(twos, checkpoint.unflatten_optimizer_states(tensors, scalars), strict=True):
        optimizer.load_state_dict(state)
    step(one, ones, 2)
    step(two, twos, 2)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    for a, b in zip(ones, twos, strict=True):
        assert a.state_dict()["param_groups"] == b.state_dict()["param_groups"]


def test_tied_weights_are_written_once_and_stay_tied(tmp_path):
    model = Model(tied=True)
    checkpoint.save_weights(tmp_path / "w.safetensors", model.state_dict())
    names = checkpoint.read_tensors(tmp_path / "w.safetensors").keys()
    assert "embed.weight" in names
    assert "first.weight" not in names
    other = Model(tied=True)
    checkpoint.load_weights(other, tmp_path / "w.safetensors")
    assert other.first.weight is other.embed.weight
    assert torch.equal(other.first.weight, model.first.weight)
    with pytest.raises(UserError, match=r"missing: first\.weight"):
        checkpoint.load_weights(Model(), tmp_path / "w.safetensors")


def test_weights_of_another_model_raise(tmp_path):
    checkpoint.save_weights(tmp_path / "w.safetensors", Model(width=17).state_dict())
    with pytest.raises(UserError, match="another shape"):
        checkpoint.load_weights(Model(width=19), tmp_path / "w.safetensors")
    (tmp_path / "w.safetensors").write_bytes(b"not a file of tensors")
    with pytest.raises(UserError, match="not a valid safetensors file"):
        checkpoint.load_weights(Model(), tmp_path / "w.safetensors")
