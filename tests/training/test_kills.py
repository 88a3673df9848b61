"""Stopped at any moment, by any signal, a run ends with the bytes of the run that was never stopped."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from training_toy import last_state, lines, train

SCRIPT = str(Path(__file__).with_name("training_toy.py"))
RUN = {"dropout": 0.3, "steps": 60, "evaluate_every": 7, "toy": {"size": 60}}


def launch(folder: Path, **more) -> subprocess.Popen:
    options = {**RUN, "folder": str(folder), **more}
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, SCRIPT, json.dumps(options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip


def ready(child: subprocess.Popen) -> None:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line == "ready\n", (line, child.stderr and child.stderr.read())


def wait_for_step(folder: Path, child: subprocess.Popen, step: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and child.poll() is None:
        if any(int(p.name[5:]) >= step for p in (folder / "state").glob("step-*") if p.name[5:].isdigit()):
            return
        time.sleep(0.005)
    raise AssertionError(f"step {step} was not reached: {child.communicate()}")


@pytest.fixture(scope="module")
def unstopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unstopped")
    child = launch(folder)
    out, trouble = child.communicate(timeout=200)
    assert child.returncode == 0, trouble
    assert out.endswith("done\n")
    return folder


def assert_same(folder: Path, unstopped: Path) -> None:
    assert (folder / "model.safetensors").read_bytes() == (unstopped / "model.safetensors").read_bytes()
    assert last_state(folder) == last_state(unstopped)
    assert lines(folder) == lines(unstopped)


def test_kill_at_random_moments(tmp_path, unstopped):
    moments = random.Random(5)
    for step in (0, 3, 20, 24):  # anywhere: before the first checkpoint, in a step, in the writing of one
        child = launch(tmp_path, resume=step > 0, checkpoint_seconds=0, toy={"slow": 0.03})
        ready(child)
        if step:
            wait_for_step(tmp_path, child, step)
        time.sleep(moments.uniform(0.0, 0.2))
        assert child.poll() is None
        child.kill()
        child.communicate()
    child = launch(tmp_path, resume=True)
    _, trouble = child.communicate(timeout=200)
    assert child.returncode == 0, trouble
    assert_same(tmp_path, unstopped)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_by_signal(tmp_path, unstopped, number):
    child = launch(tmp_path, checkpoint_seconds=0, toy={"slow": 0.02})
    ready(child)
    wait_for_step(tmp_path, child, 3)
    child.send_signal(number)
    out, trouble = child.communicate(timeout=60)
    assert child.returncode == 3, (out, trouble)
    assert "interrupted at" in out
    step = int(out.split()[-1])
    assert 3 <= step < 60
    assert last_state(tmp_path)["name"] == f"step-{step:07d}".encode()
    train(tmp_path, resume=True, **{k: v for k, v in RUN.items() if k != "toy"})
    assert_same(tmp_path, unstopped)


def interrupted_again_and_again(folder: Path) -> tuple[int, str]:
    child = launch(folder, checkpoint_seconds=0, toy={"slow": 12.0})
    ready(child)
    wait_for_step(folder, child, 1)
    time.sleep(1.5)  # into the middle of the next step
    while child.poll() is None:  # a busy machine may take two signals for one
        child.send_signal(signal.SIGINT)
        time.sleep(0.3)
    return child.returncode, child.communicate(timeout=60)[1]


def test_a_second_interrupt_stops_immediately(tmp_path):
    """A first one that falls between two steps stops the run in good order (3) before there is a second."""
    tries = (interrupted_again_and_again(tmp_path / str(i)) for i in range(4))
    code, trouble = next((found for found in tries if found[0] != 3), (3, ""))
    assert code != 3
    assert code != 0
    assert "KeyboardInterrupt" in trouble


def test_a_budget_is_replayed(tmp_path):
    """A killed run by budget keeps its number of steps."""
    options = {"steps": None, "budget": 6.0, "checkpoint_seconds": 0, "toy": {"slow": 0.05}}
    child = launch(tmp_path / "killed", **options)
    ready(child)
    wait_for_step(tmp_path / "killed", child, 2)
    child.kill()
    child.communicate()
    newest = sorted(p for p in (tmp_path / "killed" / "state").iterdir() if p.suffix != ".tmp")[-1]
    total = json.loads((newest / "state.json").read_text())["total_steps"]
    run = {k: v for k, v in RUN.items() if k not in ("toy", "steps")}
    _, result = train(tmp_path / "killed", resume=True, budget=6.0, **run)
    assert result.steps == total
    train(tmp_path / "whole", steps=total, **run)
    assert_same(tmp_path / "killed", tmp_path / "whole")


def test_muon_resumes_to_the_same_bytes(tmp_path):
    train(tmp_path / "whole", steps=12, dropout=0.2, optimizer="muon")
    from regard.training import loop

    class Stop(Exception):
        pass

    def stop_after(self, requests, bar, finish_step=loop.Loop._finish_step):
        finish_step(self, requests, bar)
        if self.state.step == 5:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Loop, "_finish_step", stop_after)
        with pytest.raises(Stop):
            train(tmp_path / "cut", steps=12, dropout=0.2, optimizer="muon", checkpoint_seconds=0)
    train(tmp_path / "cut", steps=12, dropout=0.2, optimizer="muon", resume=True)
    assert_same(tmp_path / "cut", tmp_path / "whole")
