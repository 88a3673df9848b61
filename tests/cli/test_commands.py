"""The commands do what their help says: the examples of every help text are run as they stand."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import write_corpus, write_facts, write_pairs, write_pictures, write_reviews
from typer.main import get_command

import regard
from regard.cli import build_app


def commands(command=None, path=()):
    command = command or get_command(build_app())
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from commands(child, (*path, name))
    else:
        yield path, command


def examples() -> list[str]:
    found = []
    for _, command in commands():
        found += re.findall(r"^\s+((?:cat .* \| )?regard .*)$", command.help or "", re.M)
    return found


def test_every_command_has_an_example():
    for path, command in commands():
        assert f"regard {' '.join(path)}" in (command.help or ""), path


@pytest.mark.parametrize("line", [e for e in examples() if not re.search(r"regard (demo|import|export)", e)])
def test_example_runs(line, cli, trained, speaking, translating, recalling, captioning, tmp_path):
    for name, count in (("test.csv", 20), ("new.csv", 5)):
        write_reviews(tmp_path / name, count, seed=1)
    (tmp_path / "lines.txt").write_text("We loved it.\n\nIt was dull.\n")
    if "--out runs/han" not in line or "--resume" in line:
        shutil.copytree(trained, tmp_path / "runs" / "han")
    write_corpus(tmp_path / "corpus.txt", 12)
    (tmp_path / "books").mkdir()
    write_corpus(tmp_path / "books" / "one.txt", 3, seed=1)
    for model in ("gpt", "bert", "birnn"):
        if f"runs/{model}" in line and (f"--out runs/{model}" not in line or "--resume" in line):
            shutil.copytree(speaking / model, tmp_path / "runs" / model)
    write_pairs(tmp_path)
    if "runs/en-de" in line and ("--out runs/en-de" not in line or "--resume" in line):
        shutil.copytree(translating / "en-de", tmp_path / "runs" / "en-de")
    write_facts(tmp_path)
    for book in ("closed", "open"):
        if f"runs/{book}" in line and (f"--out runs/{book}" not in line or "--resume" in line):
            shutil.copytree(recalling / book, tmp_path / "runs" / book)
    write_pictures(tmp_path)
    for name, kept in (("scenes", "scenes"), ("pictures", "pictures-run")):
        if f"runs/{name}" in line and (f"--out runs/{name}" not in line or "--resume" in line):
            shutil.copytree(captioning / kept, tmp_path / "runs" / name)
    piped = re.match(r"cat (\S+) \| (.*)", line)
    stdin = (tmp_path / piped[1]).read_text() if piped else None
    code, out, err = cli(*shlex.split(piped[2] if piped else line)[1:], stdin=stdin)
    assert code == 0, err
    assert out.strip()


def test_help_needs_no_torch():
    code = "import sys, runpy; sys.argv = ['regard', '--help']\n"
    code += "try: runpy.run_module('regard.cli', run_name='__main__')\nexcept SystemExit: pass\n"
    code += "print([m for m in ('torch', 'polars', 'sklearn', 'numpy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip().endswith("[]"), out


def test_train_evaluate_predict_look(cli, tmp_path):
    code, out, err = cli(
        *shlex.split("train classify reviews.csv --text review --label sentiment --steps 4 --out run --json -q")
    )
    assert code == 0, err
    said = json.loads(out)
    assert said["steps"] == 4
    assert set(said["labels"]) == {"negative", "positive"}
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "README.md", "state"} <= names

    code, out, _ = cli("evaluate", "run", "reviews.csv", "--json")
    assert code == 0
    measured = json.loads(out)
    assert measured["rows"] == 60
    assert 0 <= measured["accuracy"] <= 1

    code, out, _ = cli("predict", "run", "We loved it.", "--json")
    prediction = json.loads(out)
    assert prediction["label"] == max(prediction["probabilities"], key=prediction["probabilities"].get)
    assert sum(prediction["probabilities"].values()) == pytest.approx(1, abs=1e-5)

    code, out, _ = cli("predict", "run", "--json", stdin="We loved it.\nIt was dull.\n")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["text"] for line in lines] == ["We loved it.", "It was dull."]
    assert lines[0]["probabilities"]["positive"] == pytest.approx(prediction["probabilities"]["positive"], abs=1e-5)

    code, out, _ = cli("look", "run", "We loved it. It was dull.", "--out", "look.html")
    assert code == 0
    page = (tmp_path / "look.html").read_text()
    assert "loved" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_same_command_gives_the_same_weights(cli, tmp_path):
    for name in ("a", "b"):
        assert cli(*f"train classify reviews.csv --steps 4 --seed 3 --out {name} -q".split())[0] == 0
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()


@pytest.mark.parametrize("model", ["tfidf", "han", "transformer"])
def test_runs_load_as_they_were_saved(model, tmp_path):
    write_reviews(tmp_path / "reviews.csv")
    quiet = {"progress": False}
    run = regard.train("classify", tmp_path / "reviews.csv", model=model, steps=3, out=tmp_path / "run", **quiet)
    run.save_pretrained(tmp_path / "copy")
    again = regard.Run.from_pretrained(tmp_path / "copy")
    texts = ["We loved it.", "It was dull and the soup was cold.", "word"]
    assert (run.probabilities(texts) == again.probabilities(texts)).all()
    assert run.evaluate(tmp_path / "reviews.csv")["rows"] == 60


def test_settings_from_a_file_and_over_it(cli, tmp_path):
    (tmp_path / "s.yaml").write_text(
        "seed: 5\nmodel:\n  name: transformer\n  dim: 32\ntrain:\n  lr: 0.01\n  steps: 2\n"
    )
    code, _, err = cli(
        *shlex.split("train classify reviews.csv --config s.yaml --set model.layers=1 --lr 0.02 --out run -q")
    )
    assert code == 0, err
    settings = json.loads((tmp_path / "run/config.json").read_text())["settings"]
    assert settings["seed"] == 5
    assert settings["model"]["dim"] == 32
    assert settings["model"]["layers"] == 1
    assert settings["train"]["lr"] == 0.02


def test_a_mechanism_of_the_users_own(cli, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from regard.attention.mechanisms.dot import DotMechanism\n\n\nclass Mine(DotMechanism):\n    name = 'mine'\n"
    )
    code, _, err = cli(
        *shlex.split("train classify reviews.csv --model transformer --mechanism mine --import mine.py --steps 1 -q")
    )
    assert code == 0, err


def test_look_shows_itself_in_a_notebook(trained):
    seen = regard.load(trained).look("We loved it. It was dull.")
    assert seen._repr_html_().startswith("<iframe")
    assert sum(seen.data["weights"]) == pytest.approx(1, abs=1e-4)
    assert seen.data["faithfulness"]["sentence"]


def test_list_names_everything(cli):
    code, out, _ = cli("list", "--json")
    assert code == 0
    found = json.loads(out)
    from regard.attention.mechanisms import MECHANISMS
    from regard.attention.positions import POSITIONS

    assert {m["name"] for m in found["mechanisms"]} >= set(MECHANISMS)
    models = {(m["task"], m["name"]): m for m in found["models"]}
    known = {("classify", "han"), ("classify", "tfidf"), ("language", "gpt"), ("language", "birnn")}
    assert known | {("classify", "cnn"), ("language", "cnn"), (None, "regard.models.marian")} <= set(models)
    assert models["language", "gpt"]["mechanism"]
    assert not models["classify", "han"]["mechanism"]
    assert len(models) == len(found["models"])  # the encoder is there once, by the name of its task
    assert {p["name"] for p in found["positions"]} == set(POSITIONS)
    assert "rotary" not in next(m for m in found["mechanisms"] if m["name"] == "merged-qk")["positions"]
