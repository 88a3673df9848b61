"""A Ray cluster gives the same results as a single machine, also if a worker is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from comparison_helpers import rows_without_times, run, small_request

from regard.comparison import ray_backend
from regard.comparison.plan import copy_plan

ray = pytest.importorskip("ray")


def workers() -> list[int]:
    """Return the ids of Ray worker processes that are training one of our runs."""
    results = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            mine = os.getpid() in _ancestors(parent)
        except (OSError, ValueError):
            continue
        if words.startswith(b"ray::train_on_worker") and mine:
            results.append(int(folder.name))
    return results


def _ancestors(pid: int) -> list[int]:
    line = []
    while pid > 1:
        line.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return line


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    options = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    ray.init(object_store_memory=100 * 2**20, **options)
    yield
    ray.shutdown()


def test_results_are_equal_although_a_worker_is_killed(cluster, compared, tmp_path):
    killed: list[int] = []
    done = threading.Event()

    def kill_one() -> None:
        while not killed and not done.is_set():  # on a busy machine workers take minutes to start
            for pid in workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.02)

    out = tmp_path / "out"
    again = copy_plan(compared, out)
    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        results = run(again, out, on="ray")
    finally:
        done.set()
        killer.join()
    assert killed
    assert results["failures"] == {}
    assert results["evaluated"] == 6
    assert rows_without_times(out) == rows_without_times(compared)


def test_a_failed_run_is_reported(cluster, reviews, tmp_path):
    models = ["tfidf", {"label": "broken", "model": "transformer", "train": {"lr": 1e30, "clip": 0}}]
    results = run(small_request(reviews, models=models, seeds=1, budget=["30steps"]), tmp_path / "out", on="ray")
    assert [row["name"] for row in results["rows"]] == ["tfidf"]
    assert "NaN or infinite" in results["failures"]["broken, seed 0"]


def test_files_are_copied_without_checkpoints(tmp_path):
    (tmp_path / "a/state").mkdir(parents=True)
    (tmp_path / "a/one.bin").write_bytes(b"\x00\x01")
    (tmp_path / "a/state/big.bin").write_bytes(b"0" * 100)
    ray_backend.write_files(ray_backend.read_files(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "b/one.bin").read_bytes() == b"\x00\x01"
    assert not (tmp_path / "b/state").exists()
