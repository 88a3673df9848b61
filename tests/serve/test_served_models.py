"""The command itself, with true models: it starts, answers as the run does, and lives on when a process is killed."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import regard
from regard.data.synthetic.reviews import generate_reviews

pytest.importorskip("fastapi", reason='FastAPI is not installed: pip install "regard[serve]"')
pytest.importorskip("uvicorn", reason='uvicorn is not installed: pip install "regard[serve]"')

TEXTS = [
    "We loved it. The soup was cold.",
    "It was dull.",
    "The room was superb and the bill was small.",
    "Never again.",
]


class Server(NamedTuple):
    at: str
    pid: int


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("served")
    reviews = generate_reviews(60, 0)
    quiet = {"progress": False, "steps": 3}
    small = {"settings": {"model": {"dim": 16, "layers": 1, "heads": 2}}}
    table = folder / "reviews.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((r.text, r.label) for r in reviews)])
    regard.train("classify", table, model="han", out=folder / "han", **quiet)
    regard.train("classify", table, model="transformer", out=folder / "transformer", **quiet, **small)
    return {name: folder / name for name in ("han", "transformer")}


@pytest.fixture(scope="module")
def server(runs):
    command = [sys.executable, "-m", "regard.cli", "serve", *map(str, runs.values()), "--port", "0"]
    path = str(Path(regard.__file__).parents[1])
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    )
    assert started.stdout is not None
    for line in started.stdout:
        if found := re.match(r"http://\S+/", line):
            break
    else:
        raise AssertionError("it did not start")
    yield Server(found[0], started.pid)
    started.send_signal(signal.SIGINT)
    assert started.wait(timeout=20) is not None


def ask(address: str, given: dict | None = None):
    data = None if given is None else json.dumps(given).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def test_answers_equal_the_run(server, runs):
    for name, folder in runs.items():
        wanted = regard.load(folder).predict(TEXTS)
        found = json.loads(ask(server.at + "predict", {"model": name, "texts": TEXTS}))["answers"]
        for row, prediction in zip(found, wanted, strict=True):
            for label, p in prediction.probabilities.items():
                assert row["answer"]["probabilities"][label] == pytest.approx(p, abs=1e-5)


def test_concurrent_requests_are_not_mixed_up(server, runs):
    texts = [f"{TEXTS[i % 4]} {'very ' * (i % 7)}good" for i in range(48)]
    wanted = {
        text: said.probabilities for text, said in zip(texts, regard.load(runs["han"]).predict(texts), strict=True)
    }
    with ThreadPoolExecutor(16) as pool:
        found = list(
            pool.map(lambda text: json.loads(ask(server.at + "predict", {"model": "han", "text": text})), texts)
        )
    for text, row in zip(texts, found, strict=True):
        assert row["text"] == text
        assert row["answer"]["probabilities"]["positive"] == pytest.approx(wanted[text]["positive"], abs=1e-5)


def test_the_served_page_equals_the_look_page(server):
    page = ask(
        server.at + "look", {"model": "transformer", "text": TEXTS[0], "beside": "han", "what_if": ["hide:loved"]}
    )
    assert "Is attention a faithful explanation?" in page
    assert "without “loved”" in page
    assert "Two runs on the same text" in page
    known = ask(server.at + "look", {"text": TEXTS[0], "model": "transformer", "evidence": ["loved"]})
    assert "of its 1 word is among the 1 most attended" in known
    assert "of its 1 word is" in ask(server.at + "look?model=han&evidence=loved&text=We+loved+the+soup.")
    swapped = ask(
        server.at + "look", {"text": TEXTS[0], "model": "transformer", "what_if": ["swap:transformer:layers.0:1"]}
    )
    assert "layers.0, head 1 as in" in swapped


def test_a_token_is_generated_for_other_hosts(runs):
    given = ["--host", "0.0.0.0", "--port", "0", "--check"]
    command = [sys.executable, "-m", "regard.cli", "serve", str(runs["han"]), *given]
    path = {**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1])}
    said = subprocess.run(command, capture_output=True, text=True, env=path, timeout=60, check=True).stdout
    assert re.search(r"http://0\.0\.0\.0:\d+/\?token=\S{16,}", said)
    assert "han answers" in said


def test_the_page_survives_a_killed_worker(server):
    children = [int(p) for p in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()]
    assert len(children) == 2
    for child in children:
        os.kill(child, signal.SIGKILL)
    assert "<form" in ask(server.at)  # the page stands while models start again
    assert json.loads(ask(server.at + "predict", {"text": TEXTS[1]}))["answer"]["label"]
    limit = time.time() + 30
    while time.time() < limit:
        try:
            health = json.loads(ask(server.at + "health"))
            break
        except urllib.error.HTTPError:
            time.sleep(0.2)
    assert health["models"]["han"]["restarts"] == 1
