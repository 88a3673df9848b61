"""Every command has an example, and all examples in the help texts run."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
import subprocess
import sys
import typing

import pytest
from conftest import write_corpus, write_facts, write_images, write_pairs, write_reviews
from typer.main import get_command

import regard
from regard.cli import build_app
from regard.cli.train import built_in_tasks, settings_class

RUN_FIXTURES = {
    "han": ("classifier_run", ""),
    **{model: ("language_runs", model) for model in ("gpt", "bert", "birnn")},
    "en-de": ("translation_runs", "en-de"),
    **{book: ("recall_runs", book) for book in ("closed", "open")},
    "scenes": ("image_runs", "scenes"),
    "images": ("image_runs", "images-run"),
}
"""Run folder in the examples -> fixture, and the folder in it."""


def list_commands(command=None, path=()):
    command = command or get_command(build_app())
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from list_commands(child, (*path, name))
    else:
        yield path, command


def list_examples() -> list[str]:
    pattern = r"^\s+((?:cat .* \| )?regard .*)$"
    return [line for _, command in list_commands() for line in re.findall(pattern, command.help or "", re.M)]


def test_every_command_has_an_example():
    for path, command in list_commands():
        assert f"regard {' '.join(path)}" in (command.help or ""), path


@pytest.mark.parametrize("line", [e for e in list_examples() if not re.search(r"regard (demo|import|export)", e)])
def test_examples_run(line, cli, request, tmp_path):
    for name, count in (("test.csv", 20), ("new.csv", 5)):
        write_reviews(tmp_path / name, count, seed=1)
    (tmp_path / "lines.txt").write_text("We loved it.\n\nIt was dull.\n")
    write_corpus(tmp_path / "corpus.txt", 12)
    (tmp_path / "books").mkdir()
    write_corpus(tmp_path / "books" / "one.txt", 3, seed=1)
    write_pairs(tmp_path)
    write_facts(tmp_path)
    write_images(tmp_path)
    for run, (fixture, folder) in RUN_FIXTURES.items():
        if f"runs/{run}" in line and (f"--out runs/{run}" not in line or "--resume" in line):
            shutil.copytree(request.getfixturevalue(fixture) / folder, tmp_path / "runs" / run)
    pipe = re.match(r"cat (\S+) \| (.*)", line)
    stdin = (tmp_path / pipe[1]).read_text() if pipe else None
    code, out, err = cli(*shlex.split(pipe[2] if pipe else line)[1:], stdin=stdin)
    assert code == 0, err
    assert out.strip()


def test_help_does_not_import_torch():
    for words in (["--help"], ["train", "--help"], ["train", "classify", "--help"], ["evaluate", "--help"]):
        heavy = ["torch", "sklearn", *(["polars", "numpy"] if words == ["--help"] else [])]
        code = f"import sys, runpy; sys.argv = {['regard', *words]}\n"
        code += "try: runpy.run_module('regard.cli', run_name='__main__')\nexcept SystemExit: pass\n"
        code += f"print([m for m in {heavy} if m in sys.modules])"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert out.strip().endswith("[]"), (words, out)


@pytest.mark.parametrize("task", built_in_tasks())
def test_every_setting_has_a_help_text(task):
    hints = typing.get_type_hints(settings_class(task))
    for section in ("data", "tokenizer", "train"):
        for field in dataclasses.fields(hints[section]):
            assert field.metadata.get("help"), f"{task}: {section}.{field.name}"


def test_settings_are_options(cli):
    code, out, _ = cli("train", "classify", "--help")
    assert code == 0
    for option in ("--text", "--multi-label", "--lr", "--num-devices", "--from", "--vocab-size", "--ensemble-size"):
        assert f"{option} " in out, option
    assert "Peak learning rate. [0.001]" in out


def test_help_groups_the_commands(cli):
    _, out, _ = cli("--help")
    for heading in ("Train and use:", "Compare:", "Inspect:", "Theory:", "Data:", "Models in and out:"):
        assert heading in out


def listed_options(help_text: str) -> set[str]:
    return set(re.findall(r"^  (--[a-z-]+)", help_text, re.M))


def test_options_depend_on_the_run(cli, classifier_run, language_runs):
    """`evaluate` has the options of the run's task, and says without a run that there are more."""
    _, out, _ = cli("evaluate", "--help")
    assert "regard evaluate RUN --help" in " ".join(out.split())
    assert not {"--stride", "--label"} & listed_options(out)
    _, out, _ = cli("evaluate", str(language_runs / "gpt"), "--help")
    assert {"--stride", "--label"} & listed_options(out) == {"--stride"}
    _, out, _ = cli("evaluate", str(classifier_run), "--help")
    assert {"--stride", "--label"} & listed_options(out) == {"--label"}
    code, _, err = cli("evaluate", str(classifier_run), "reviews.csv", "--stride", "3")
    assert code == 2
    assert "No such option" in err


def test_train_evaluate_predict_look(cli, tmp_path):
    code, out, err = cli(
        *shlex.split("train classify reviews.csv --text review --label sentiment --steps 4 --out run --json -q")
    )
    assert code == 0, err
    result = json.loads(out)
    assert result["steps"] == 4
    assert set(result["labels"]) == {"negative", "positive"}
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "README.md", "state"} <= names

    code, out, _ = cli("evaluate", "run", "reviews.csv", "--json")
    assert code == 0
    metrics = json.loads(out)
    assert metrics["rows"] == 60
    assert 0 <= metrics["accuracy"] <= 1

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
def test_a_saved_run_predicts_the_same(model, tmp_path):
    write_reviews(tmp_path / "reviews.csv")
    run = regard.train("classify", tmp_path / "reviews.csv", model=model, steps=3, out=tmp_path / "run", progress=False)
    run.save_pretrained(tmp_path / "copy")
    copy = regard.load(tmp_path / "copy")
    texts = ["We loved it.", "It was dull and the soup was cold.", "word"]
    assert (run.probabilities(texts) == copy.probabilities(texts)).all()
    assert run.evaluate(tmp_path / "reviews.csv")["rows"] == 60


def test_options_override_the_recipe(cli, tmp_path):
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


def test_a_user_mechanism_can_be_imported(cli, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from regard.attention.mechanisms.dot import DotMechanism\n\n\nclass Mine(DotMechanism):\n    name = 'mine'\n"
    )
    code, _, err = cli(
        *shlex.split("train classify reviews.csv --model transformer --mechanism mine --import mine.py --steps 1 -q")
    )
    assert code == 0, err


def test_look_displays_itself_in_a_notebook(classifier_run):
    look = regard.look(classifier_run, "We loved it. It was dull.")
    assert look._repr_html_().startswith("<iframe")
    assert sum(look.data["weights"]) == pytest.approx(1, abs=1e-4)
    assert look.data["faithfulness"]["verdict"]


def test_list_contains_everything(cli):
    code, out, _ = cli("list", "--json")
    assert code == 0
    components = json.loads(out)
    from regard.attention.mechanisms import MECHANISMS
    from regard.attention.positions import POSITIONS

    assert {m["name"] for m in components["mechanisms"]} >= set(MECHANISMS)
    models = {(m["task"], m["name"]): m for m in components["models"]}
    known = {("classify", "han"), ("classify", "tfidf"), ("language", "gpt"), ("language", "birnn")}
    known |= {("classify", "cnn"), ("language", "cnn"), (None, "regard.models.marian.MarianConfig")}
    assert known <= set(models)
    assert models["language", "gpt"]["mechanism"]
    assert not models["classify", "han"]["mechanism"]
    assert len(models) == len(components["models"])  # no model is listed twice
    assert {p["name"] for p in components["positions"]} == set(POSITIONS)
    assert "rotary" not in next(m for m in components["mechanisms"] if m["name"] == "merged-qk")["positions"]
