"""Budgets: what is written, what it comes to in steps, and that steps are what the budget allows."""

from __future__ import annotations

import json

import pytest
from comparing import MODELS, asked
from hypothesis import given
from hypothesis import strategies as st

from regard.comparison import compare_designs
from regard.comparison.budget import Budget, Survey, expected, parse, steps_of
from regard.comparison.designs import listed, varied
from regard.errors import UserError

SEEN = Survey(parameters=10, flops_step=2e6, tokens_step=100, epoch=7, seconds_step=0.01, seconds_evaluation=0.05)


@pytest.mark.parametrize(
    ("given_", "budget"),
    [
        (["2min"], Budget("seconds", 120.0)),
        (["90s"], Budget("seconds", 90.0)),
        (["2Tflops"], Budget("flops", 2e12)),
        (["3e9 flops"], Budget("flops", 3e9)),
        (["5Mtokens"], Budget("tokens", 5e6)),
        (["500steps", "300kparameters"], Budget("steps", 500.0, 300_000)),
        (["1.5Mparams"], Budget("epochs", 5.0, 1_500_000)),
        ([], Budget("epochs", 5.0)),
    ],
)
def test_budgets_are_read(given_, budget):
    assert parse(given_) == budget


@pytest.mark.parametrize("given_", [["soon"], ["2min", "3epochs"], ["0steps"], ["5 apples"]])
def test_what_is_no_budget_is_said(given_):
    with pytest.raises(UserError):
        parse(given_)


def test_lengths_become_steps():
    assert steps_of(Budget("flops", 1e9), SEEN)[0] == 500
    assert steps_of(Budget("tokens", 1e4), SEEN)[0] == 100
    assert steps_of(Budget("epochs", 3), SEEN)[0] == 21
    assert steps_of(Budget("steps", 55), SEEN) == (55, 6)


@given(st.floats(1, 1e5), st.floats(1e-4, 10), st.floats(1e-4, 10))
def test_time_is_kept(seconds, step, evaluation):
    seen = Survey(seconds_step=step, seconds_evaluation=evaluation)
    steps, every = steps_of(Budget("seconds", seconds), seen)
    assert steps >= 1
    if steps > 1:
        assert expected(seen, steps, every) <= seconds * 1.001


def test_lists_keep_settings_with_their_name():
    assert listed("han,transformer:dim=32,layers=1,cnn") == ["han", "transformer:dim=32,layers=1", "cnn"]
    assert varied(["mechanism=dot,local:window=8", "lr=0.1"]) == {"mechanism": ["dot", "local:window=8"], "lr": ["0.1"]}


def test_models_are_sized_to_the_parameters(reviews, tmp_path):
    how = {"models": MODELS[:2], "budget": ["3steps", "20kparameters"], "seeds": 1}
    found = compare_designs(asked(reviews, **how), tmp_path / "out", progress=False)
    for row in found["rows"]:
        assert 16_000 <= row["parameters"] <= 20_000


def test_tokens_are_what_the_runs_read(reviews, tmp_path):
    how = {"models": MODELS[:2], "budget": ["6ktokens"], "seeds": 1}
    compare_designs(asked(reviews, **how), tmp_path / "out", progress=False)
    logs = list((tmp_path / "out/runs").rglob("metrics.jsonl"))
    assert len(logs) == 2
    for log in logs:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert max(line.get("tokens", 0) for line in lines) == pytest.approx(6000, rel=0.25)


def test_time_is_turned_into_steps_that_are_kept(reviews, tmp_path):
    how = {"models": MODELS[:1], "budget": ["2s"], "seeds": 1}
    found = compare_designs(asked(reviews, **how), tmp_path / "out", progress=False)
    kept = json.loads((tmp_path / "out/plan.json").read_text())["entries"][0]["steps"]
    assert found["rows"][0]["steps"] == kept > 1
    assert found["rows"][0]["seconds"] < 12  # a busy machine may take longer, and not another order of magnitude
