"""Budgets: parsing, conversion to steps, and that runs keep within them."""

from __future__ import annotations

import json

import pytest
from comparison_helpers import MODELS, run, small_request
from hypothesis import given
from hypothesis import strategies as st

from regard.comparison.budget import Budget, DesignCost, count_steps, expected_seconds, parse_budget
from regard.comparison.request import parse_grid, split_specs
from regard.errors import UserError

COST = DesignCost(
    parameters=10,
    flops_per_step=2e6,
    tokens_per_step=100,
    steps_per_epoch=7,
    seconds_per_step=0.01,
    seconds_per_evaluation=0.05,
)


@pytest.mark.parametrize(
    ("texts", "budget"),
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
def test_budgets_are_parsed(texts, budget):
    assert parse_budget(texts) == budget


@pytest.mark.parametrize("texts", [["soon"], ["2min", "3epochs"], ["0steps"], ["5 apples"]])
def test_invalid_budgets_raise(texts):
    with pytest.raises(UserError):
        parse_budget(texts)


def test_budgets_are_converted_to_steps():
    assert count_steps(Budget("flops", 1e9), COST)[0] == 500
    assert count_steps(Budget("tokens", 1e4), COST)[0] == 100
    assert count_steps(Budget("epochs", 3), COST)[0] == 21
    assert count_steps(Budget("steps", 55), COST) == (55, 6)


@given(st.floats(1, 1e5), st.floats(1e-4, 10), st.floats(1e-4, 10))
def test_a_time_budget_is_kept(seconds, step, evaluation):
    cost = DesignCost(seconds_per_step=step, seconds_per_evaluation=evaluation)
    steps, every = count_steps(Budget("seconds", seconds), cost)
    assert steps >= 1
    if steps > 1:
        assert expected_seconds(cost, steps, every) <= seconds * 1.001


def test_settings_stay_with_their_model():
    assert split_specs("han,transformer:dim=32,layers=1,cnn") == ["han", "transformer:dim=32,layers=1", "cnn"]
    assert parse_grid("vary", ["mechanism=dot,local:window=8", "lr=0.1"]) == {
        "mechanism": ["dot", "local:window=8"],
        "lr": ["0.1"],
    }


def test_models_are_scaled_to_the_parameters(reviews, tmp_path):
    options = {"models": MODELS[:2], "budget": ["3steps", "20kparameters"], "seeds": 1}
    results = run(small_request(reviews, **options), tmp_path / "out")
    for row in results["rows"]:
        assert 16_000 <= row["parameters"] <= 20_000


def test_runs_read_as_many_tokens_as_the_budget(reviews, tmp_path):
    options = {"models": MODELS[:2], "budget": ["6ktokens"], "seeds": 1}
    run(small_request(reviews, **options), tmp_path / "out")
    logs = list((tmp_path / "out/runs").rglob("metrics.jsonl"))
    assert len(logs) == 2
    for log in logs:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert max(line.get("tokens", 0) for line in lines) == pytest.approx(6000, rel=0.25)


def test_a_time_budget_becomes_steps_in_the_plan(reviews, tmp_path):
    options = {"models": MODELS[:1], "budget": ["2s"], "seeds": 1}
    results = run(small_request(reviews, **options), tmp_path / "out")
    planned = json.loads((tmp_path / "out/plan.json").read_text())["designs"][0]["steps"]
    assert results["rows"][0]["steps"] == planned > 1
    assert results["rows"][0]["seconds"] < 12  # a busy machine may take longer, but not ten times
