"""Several processes give what one gives: same losses at the same global batch, dropout off."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from training_toy import lines, train

SCRIPT = str(Path(__file__).with_name("training_toy.py"))
CLEAN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "REGARD_PRECISION")


def run(folder: Path, *command: str, **options) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in CLEAN}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, *command, SCRIPT, json.dumps({"folder": str(folder), **options})],
        env=environment, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start(folder: Path, **options) -> subprocess.Popen:
    environment = {k: v for k, v in os.environ.items() if k not in CLEAN}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, SCRIPT, json.dumps({"folder": str(folder), **options})]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_close(folder: Path, single: Path) -> None:
    many, one = lines(folder), lines(single)
    assert len(many) == len(one)
    for a, b in zip(many, one, strict=True):
        assert a["step"] == b["step"]
        if "loss" in a:
            assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
            assert a["terms"] == pytest.approx(b["terms"], abs=1e-5)
            assert a["tokens"] == b["tokens"]
        else:
            assert a["valid"]["loss"] == pytest.approx(b["valid"]["loss"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("toy", "more"),
    [
        ({"size": 60, "batch": 13}, {"grad_accumulation": 3}),
        # Batches of one item, the last of an epoch: the second process has none.
        ({"size": 27, "batch": 13}, {"optimizer": "muon", "checkpoint_seconds": 0}),
    ],
)
def test_two_processes_equal_one(tmp_path, toy, more):
    from training_toy import Toy

    train(tmp_path / "one", task=Toy(**toy), steps=12, evaluate_every=5, **{**more, "grad_accumulation": 1})
    out = run(tmp_path / "two", toy=toy, steps=12, evaluate_every=5, num_devices=2, strategy="ddp", **more)
    assert out.count("done") == 2
    assert_close(tmp_path / "two", tmp_path / "one")
    newest = sorted((tmp_path / "two" / "state").iterdir())[-1]
    assert {"rng-0.safetensors", "rng-1.safetensors"} <= {p.name for p in newest.iterdir()}


@pytest.mark.slow
def test_torchrun_and_resume(tmp_path):
    """`torchrun` says how many processes there are; a run goes on under it as under one process."""
    train(tmp_path / "one", steps=8, decay="constant")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run(tmp_path / "two", *torchrun, steps=4, decay="constant", warmup=0.05, checkpoint_seconds=0)
    run(tmp_path / "two", *torchrun, steps=8, decay="constant", resume=True)
    two = [line for line in lines(tmp_path / "two") if "loss" in line]
    one = [line for line in lines(tmp_path / "one") if "loss" in line]
    assert [line["step"] for line in two] == list(range(1, 9))
    for a, b in zip(two, one, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both(tmp_path):
    train(tmp_path / "one", steps=30, evaluate_every=9)
    both = {"steps": 30, "evaluate_every": 9, "num_devices": 2, "strategy": "ddp"}
    child = start(tmp_path / "two", **both, checkpoint_seconds=0, toy={"slow": 0.03})
    end = time.monotonic() + 120
    while not list((tmp_path / "two" / "state").glob("step-*[0-9]")) and time.monotonic() < end:
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    out, trouble = child.communicate(timeout=120)
    assert child.returncode == 3, trouble
    assert out.count("interrupted at") == 2
    run(tmp_path / "two", **both, resume=True)
    assert_close(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_sharded_weights_are_saved_in_full(tmp_path):
    script = Path(__file__).with_name("training_shards.py")
    environment = {k: v for k, v in os.environ.items() if k not in CLEAN}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, str(script), str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("same") == 2
