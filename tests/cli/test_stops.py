"""Stops of every kind through the real command line, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import write_reviews

COMMAND = [sys.executable, "-m", "regard.cli", "train", "classify"]
TINY = ["--set", "model.embed=16", "--set", "model.hidden=8", "--set", "model.attention=8", "--batch-tokens", "256"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def regard(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=240)
    assert done.returncode == 0 or not check, done.stderr
    return done


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def wait_for_step(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    """Until a checkpoint of that step or later is there."""
    for _ in range(4000):
        done = [int(p.name[5:]) for p in (folder / "state").glob("step-*") if p.name[5:].isdigit()]
        if max(done, default=-1) >= step:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError(f"no checkpoint of step {step} came")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    write_reviews(folder / "reviews.csv", 120)
    regard(
        str(folder / "reviews.csv"),
        *TINY,
        "--steps",
        "60",
        "--set",
        "train.checkpoint_seconds=0",
        "--out",
        str(folder / "run"),
    )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_resumes_to_the_same_bytes(number, code, whole, tmp_path):
    run = tmp_path / "run"
    process = start(
        str(whole / "reviews.csv"), *TINY, "--steps", "60", "--set", "train.checkpoint_seconds=0", "--out", str(run)
    )
    wait_for_step(run, 20, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    if number != signal.SIGKILL:
        assert "--resume" in said
    assert not json.loads((run / "config.json").read_text()).get("finished")
    regard("--resume", "--out", str(run))
    assert (run / "model.safetensors").read_bytes() == (whole / "run" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one(whole, tmp_path):
    words = [str(whole / "reviews.csv"), *TINY, "--steps", "8", "--set", "model.dropout=0"]
    regard(*words, "--out", str(tmp_path / "one"))
    regard(*words, "--out", str(tmp_path / "two"), "--num-devices", "2", "--strategy", "ddp")
    losses = []
    for name in ("one", "two"):
        lines = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        losses.append([line["loss"] for line in lines if "loss" in line])
    assert len(losses[0]) == 8
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
