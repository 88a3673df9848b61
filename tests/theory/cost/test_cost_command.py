"""`regard cost` as a command: names, JSON, pages, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.errors import UserError
from regard.theory.cost.classifier_formulas import NAMERS

RECIPES = Path(__file__).parent.parent.parent / "recipes"


def call(*words: str):
    return CliRunner().invoke(app, ["cost", *words])


@pytest.mark.parametrize("what", ["dot", "lstm", "gpt", "classify/transformer", "bilstm", "han"])
def test_json_holds_formula_and_count(what):
    said = call(what, "--n", "40", "--d", "32", "--vocab", "60", "--json")
    assert said.exit_code == 0, said.exception
    found = json.loads(said.stdout)
    assert found["sizes"] == {"n": 40, "m": 40}
    assert found["counted"]["forward"] > 0
    assert found["crossings"] == {"d": 32, "gru": 32, "lstm": 64, "rnn": None}
    if found["formula"] is not None:
        assert found["agrees"] == {"params": True, "forward": True, "backward": True}


def test_table_says_what_was_not_compared(monkeypatch):
    assert "not compared" not in call("han", "--n", "40", "--vocab", "60").stdout
    monkeypatch.delitem(NAMERS, "HAN")
    said = call("han", "--n", "40", "--vocab", "60")
    assert "not compared" in said.stdout
    assert "agree" in call("dot").stdout


def test_page(tmp_path):
    said = call("dot", "--out", str(tmp_path / "cost.html"))
    assert said.exit_code == 0
    assert (tmp_path / "cost.html").read_text().startswith("<!doctype html>")


def test_prediction_is_said():
    said = call("dot", "--n", "16", "--d", "16", "--predict", "1000", "--batch", "2", "--json")
    assert json.loads(said.stdout)["predicted"]["seconds_epoch"] > 0


@pytest.mark.parametrize("what", ["transformer-base", str(RECIPES / "transformer-base.yaml")])
def test_the_base_model_of_the_paper_is_itemised(what):
    found = json.loads(call(what, "--n", "2", "--json").stdout)
    items = {item["name"]: item["params"] for item in found["items"]}
    assert items["embeddings (tied with the head)"] == 37_000 * 512
    assert found["agrees"] == {"params": True, "forward": True, "backward": True}
    assert round((found["counted"]["params"] - 37_000) / 1e6, 1) == 63.1  # the paper's head has no bias


def test_a_recipe_has_its_sizes():
    small = json.loads(call(str(RECIPES / "shakespeare-quick.yaml"), "--n", "4", "--vocab", "70", "--json").stdout)
    assert small["counted"]["params"] > 0
    assert small["agrees"]["params"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gtp"], "gpt"),
        (["transformer-bas"], "transformer-base"),
        ([str(RECIPES / "mr.yaml"), "--d", "8"], "is a recipe, whose sizes are known"),
        ([str(RECIPES / "compare-heads.yaml")], "cost its models by name"),
        ([str(RECIPES / "none.yaml")], "none.yaml"),
        (["gpt", "--positions", "rotar"], "rotary"),
        (["bilstm", "--heads", "2"], "heads"),
    ],
)
def test_mistakes_are_told(words, told):
    problem = call(*words).exception
    assert isinstance(problem, UserError)
    assert told in str(problem)
