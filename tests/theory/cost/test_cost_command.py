"""The command `regard cost`: names, JSON, pages and error messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import build_app
from regard.errors import UserError
from regard.models.han import HAN

RECIPES = Path(__file__).parents[3] / "recipes"


def run_cost(*arguments: str):
    return CliRunner().invoke(build_app(), ["cost", *arguments])


@pytest.mark.parametrize("what", ["dot", "lstm", "gpt", "classify/transformer", "bilstm", "han"])
def test_json_has_formula_and_count(what):
    result = run_cost(what, "--n", "40", "--dim", "32", "--vocab-size", "60", "--json")
    assert result.exit_code == 0, result.exception
    card = json.loads(result.stdout)
    assert card["sizes"] == {"n": 40, "m": 40}
    assert card["counted"]["forward"] > 0
    assert card["crossover"] == {"d": 32, "gru": 32, "lstm": 64, "rnn": None}
    if card["formula"] is not None:
        assert card["agrees"] == {"params": True, "forward": True, "backward": True}


def test_table_shows_what_was_not_compared(monkeypatch):
    assert "not compared" not in run_cost("han", "--n", "40", "--vocab-size", "60").stdout
    monkeypatch.delattr(HAN, "cost_parts")
    result = run_cost("han", "--n", "40", "--vocab-size", "60")
    assert "not compared" in result.stdout
    assert "agree" in run_cost("dot").stdout


def test_page(tmp_path):
    result = run_cost("dot", "--out", str(tmp_path / "cost.html"))
    assert result.exit_code == 0
    assert (tmp_path / "cost.html").read_text().startswith("<!doctype html>")


def test_time_is_predicted():
    result = run_cost("dot", "--n", "16", "--dim", "16", "--predict", "1000", "--batch", "2", "--json")
    assert json.loads(result.stdout)["predicted"]["seconds_epoch"] > 0


@pytest.mark.parametrize("what", ["transformer-base", str(RECIPES / "transformer-base.yaml")])
def test_parts_of_the_base_model_of_the_paper(what):
    card = json.loads(run_cost(what, "--n", "2", "--json").stdout)
    params = {part["name"]: part["params"] for part in card["parts"]}
    assert params["embeddings (tied with the head)"] == 37_000 * 512
    assert card["agrees"] == {"params": True, "forward": True, "backward": True}
    assert round((card["counted"]["params"] - 37_000) / 1e6, 1) == 63.1  # the paper's head has no bias


def test_a_recipe_sets_the_sizes():
    small = json.loads(
        run_cost(str(RECIPES / "shakespeare-quick.yaml"), "--n", "4", "--vocab-size", "70", "--json").stdout
    )
    assert small["counted"]["params"] > 0
    assert small["agrees"]["params"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gtp"], "gpt"),
        (["transformer-bas"], "transformer-base"),
        ([str(RECIPES / "mr.yaml"), "--dim", "8"], "is a recipe, which has its own sizes"),
        ([str(RECIPES / "compare-heads.yaml")], "is not a recipe of `regard train`"),
        ([str(RECIPES / "none.yaml")], "none.yaml"),
        (["gpt", "--positions", "rotar"], "rotary"),
        (["bilstm", "--heads", "2"], "heads"),
    ],
)
def test_errors(arguments, message):
    error = run_cost(*arguments).exception
    assert isinstance(error, UserError)
    assert message in str(error)
