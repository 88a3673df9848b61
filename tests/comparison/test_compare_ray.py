"""On a cluster of two workers, one of which is killed in the middle, the table is the one of a single machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from comparing import asked, table

from regard.comparison import compare_designs
from regard.comparison import ray_backend as on_ray
from regard.comparison.plan import replay

ray = pytest.importorskip("ray")


def workers() -> list[int]:
    """Processes of Ray that are in the middle of one of our runs."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            mine = os.getpid() in _above(parent)
        except (OSError, ValueError):
            continue
        if words.startswith(b"ray::trained") and mine:
            found.append(int(folder.name))
    return found


def _above(pid: int) -> list[int]:
    line = []
    while pid > 1:
        line.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return line


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    how = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    ray.init(object_store_memory=100 * 2**20, **how)
    yield
    ray.shutdown()


def test_the_table_is_the_same_though_a_worker_is_killed(cluster, compared, tmp_path):
    killed: list[int] = []
    done = threading.Event()

    def kill_one() -> None:
        while not killed and not done.is_set():  # on a busy machine workers take minutes to start
            for pid in workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.02)

    out = tmp_path / "out"
    again = replay(compared, out)
    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        found = compare_designs(again, out, on="ray", progress=False)
    finally:
        done.set()
        killer.join()
    assert killed
    assert found["failures"] == {}
    assert found["measured"] == 6
    assert table(out) == table(compared)


def test_a_run_that_fails_there_is_told(cluster, reviews, tmp_path):
    models = ["tfidf", {"label": "broken", "model": "transformer", "train": {"lr": 1e30, "clip": 0}}]
    found = compare_designs(
        asked(reviews, models=models, seeds=1, budget=["30steps"]),
        tmp_path / "out",
        on="ray",
        progress=False,
    )
    assert [row["name"] for row in found["rows"]] == ["tfidf"]
    assert "NaN or infinite" in found["failures"]["broken, seed 0"]


def test_files_come_back_as_they_were(tmp_path):
    (tmp_path / "a/state").mkdir(parents=True)
    (tmp_path / "a/one.bin").write_bytes(b"\x00\x01")
    (tmp_path / "a/state/big.bin").write_bytes(b"0" * 100)
    on_ray.unpacked(on_ray.packed(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "b/one.bin").read_bytes() == b"\x00\x01"
    assert not (tmp_path / "b/state").exists()
