"""A comparison of classifiers from end to end: results, resuming, repeating, and failures."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from comparison_helpers import MODELS, rows_without_times, run, small_request

from regard.comparison import ComparisonRequest, ComparisonStopped, compare, train_runs
from regard.comparison.plan import copy_plan
from regard.comparison.run_comparison import plan_comparison
from regard.config.messages import collect_messages
from regard.data.train_valid_split import count_duplicates
from regard.errors import UserError
from regard.tasks.base_run import Run
from regard.training.interrupts import Interrupted


def read_lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_results_equal_those_of_the_runs(compared):
    results = json.loads((compared / "results.json").read_text())
    assert {row["name"] for row in results["rows"]} == set(MODELS)
    assert (results["runs"], results["trained"], results["evaluated"]) == (6, 6, 6)
    test = read_lines(compared / "parts/test.jsonl")
    assert results["items"] == {"train": 116, "valid": 12, "test": 32}
    for row in results["rows"]:
        folder = compared / "runs" / row["name"].replace(":", "-").replace(",", "-")
        reached = [Run.load(folder / f"seed-{s}").evaluate(compared / "parts/test.jsonl") for s in (0, 1)]
        assert row["values"] == pytest.approx([r["accuracy"] for r in reached])
        assert row["mean"] == pytest.approx(np.mean(row["values"]))
        assert row["other_metrics"]["macro_f1"] == pytest.approx(np.mean([r["macro_f1"] for r in reached]))
        assert row["other_metrics"]["loss"] == pytest.approx(np.mean([r["loss"] for r in reached]), rel=1e-4)
        assert row["low"] <= row["mean"] <= row["high"]
        outputs = read_lines(compared / "scores" / folder.name / "seed-0.jsonl")
        right = np.mean([o["output"] == t["label"] for o, t in zip(outputs, test, strict=True)])
        assert right == pytest.approx(row["values"][0])
        assert row["steps"] == (0 if row["name"] == "tfidf" else 4)
    han = next(row for row in results["rows"] if row["name"].startswith("han"))
    assert 0 < han["evidence"] < 1
    assert han["faithfulness"] is not None
    assert han["flops"] > 0
    assert han["memory"] > 16 * han["parameters"]
    with (compared / "results.csv").open() as file:
        assert [row["name"] for row in csv.DictReader(file)] == [row["name"] for row in results["rows"]]


def test_duplicates_between_parts_are_counted(compared):
    parts = {
        part: [row["text"] for row in read_lines(compared / f"parts/{part}.jsonl")]
        for part in ("train", "valid", "test")
    }
    duplicates = json.loads((compared / "results.json").read_text())["duplicates"]
    assert duplicates["test in training"] == count_duplicates(parts["train"], parts["test"])
    assert duplicates["validation in training"] == count_duplicates(parts["train"], parts["valid"])


def test_a_replay_gives_the_same_results(compared, tmp_path):
    again = copy_plan(compared, tmp_path / "again")
    run(again, tmp_path / "again")
    assert rows_without_times(tmp_path / "again") == rows_without_times(compared)
    one, other = (out / "runs/tfidf/seed-0/model.safetensors" for out in (compared, tmp_path / "again"))
    assert one.read_bytes() == other.read_bytes()


def test_an_interrupted_comparison_reports_and_resumes(compared, reviews, tmp_path, monkeypatch):
    real, calls = train_runs.train, []

    def stopping(task, **options):
        calls.append(options["out"])
        if len(calls) == 3:
            raise Interrupted(options["out"], 2)
        return real(task, **options)

    monkeypatch.setattr(train_runs, "train", stopping)
    with pytest.raises(ComparisonStopped) as stop:
        run(small_request(reviews), tmp_path / "out")
    assert stop.value.result.data["evaluated"] == 2
    assert "2 of 6 runs" in (tmp_path / "out/report.html").read_text()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out/scores").rglob("seed-*")}
    run(small_request(reviews), tmp_path / "out")
    assert len(calls) == 7  # three, and the four that were missing
    assert {p: p.stat().st_mtime_ns for p in before} == before  # the test part is touched once
    assert rows_without_times(tmp_path / "out") == rows_without_times(compared)


def test_an_interrupted_evaluation_is_reported(compared, tmp_path, monkeypatch):
    shutil.copytree(compared, tmp_path / "out")
    shutil.rmtree(tmp_path / "out/scores")
    (tmp_path / "out/report.html").unlink()
    real, calls = train_runs.score_run, []

    def stopping(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(train_runs, "score_run", stopping)
    with pytest.raises(ComparisonStopped) as stop:
        run(copy_plan(compared, tmp_path / "out"), tmp_path / "out")
    assert stop.value.result.data["evaluated"] == 2
    assert "2 of 6 runs" in (tmp_path / "out/report.html").read_text()


def test_a_failed_run_is_reported_and_the_others_continue(reviews, tmp_path, monkeypatch):
    real = train_runs.train

    def failing(task, **options):
        if "transformer" in str(options["out"]) and options["seed"] == 1:
            raise RuntimeError("out of luck")
        return real(task, **options)

    monkeypatch.setattr(train_runs, "train", failing)
    results = run(small_request(reviews), tmp_path / "out")
    assert results["evaluated"] == 5
    assert list(results["failures"].values()) == ["out of luck"]
    assert {row["name"]: len(row["seeds"]) for row in results["rows"]} == dict(zip(MODELS, (2, 1, 2), strict=True))
    assert "out of luck" in (tmp_path / "out/report.html").read_text()
    monkeypatch.undo()
    assert run(small_request(reviews), tmp_path / "out")["failures"] == {}


def test_seeds_and_models_can_be_added(compared, reviews, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(compared, out)
    results = run(small_request(reviews, models=[*MODELS, "nb-svm"], seeds=3), out)
    assert results["evaluated"] == 12
    old = {row["name"]: row["values"] for row in rows_without_times(compared)}
    for row in results["rows"]:
        if row["name"] in old:
            assert row["values"][:2] == old[row["name"]]
    other = {"label": "tfidf", "model": {"name": "tfidf", "ngrams": 1}}
    with pytest.raises(UserError, match="another 'tfidf'"):
        run(small_request(reviews, models=[other]), out)
    with pytest.raises(UserError, match="budget was"):
        run(small_request(reviews, budget=["5steps"]), out)


def test_a_grid_skips_invalid_combinations(reviews, tmp_path):
    vary = {"mechanism": ["dot", "synthesizer-dense:length=256"], "positions": ["none", "rotary"]}
    models = ["transformer:dim=16,hidden=16,layers=1,heads=2", "tfidf"]
    with collect_messages() as messages:
        results = run(small_request(reviews, models=models, vary=vary, seeds=1, budget=["2steps"]), tmp_path / "out")
    names = {row["name"] for row in results["rows"]}
    assert f"{models[0]}, dot, rotary" in names
    assert "tfidf" in names
    assert len(names) == 4
    assert list(results["skipped"]) == [f"{models[0]}, synthesizer-dense:length=256, rotary"]
    assert any("tfidf has no setting mechanism" in line for line in messages)


def test_a_search_stays_within_the_budget(reviews, tmp_path):
    options = {"models": MODELS[:1], "seeds": 1, "budget": ["20steps"], "search": {"lr": ["0.0001", "0.02"]}}
    results = run(small_request(reviews, **options), tmp_path / "out")
    row = results["rows"][0]
    assert row["steps"] == 20 - 2 * 3
    assert row["search_choice"]["lr"] in ("0.0001", "0.02")
    config = json.loads(next((tmp_path / "out/runs").rglob("config.json")).read_text())
    assert config["settings"]["train"]["lr"] == float(row["search_choice"]["lr"])
    assert config["settings"]["train"]["steps"] == 14


def test_a_failed_value_does_not_stop_the_search(reviews, tmp_path):
    """Of the heads one number does not divide the width; the bag of words has none and takes part as it is."""
    options = {"models": MODELS[1:], "seeds": 1, "budget": ["20steps"], "search": {"heads": ["3", "2"]}}
    with collect_messages() as messages:
        results = run(small_request(reviews, **options), tmp_path / "out")
    assert results["failures"] == {}
    assert any("heads=3 fails" in line for line in messages)
    rows = {row["name"]: row for row in results["rows"]}
    assert rows[MODELS[1]]["search_choice"] == {"heads": "2"}
    assert rows[MODELS[1]]["steps"] == 14
    assert "search_choice" not in rows["tfidf"]


@pytest.mark.parametrize(
    ("metrics", "value"),
    [
        ({"exact": 0.4}, 0.4),
        ({"loss": 2.0, "perplexity": 7.4}, -2.0),
        ({"bleu": 9.0, "accuracy": 0.1}, 9.0),
        ({"bleu_lc": 9.0, "accuracy": 0.1}, 9.0),
    ],
)
def test_the_metric_of_a_search(monkeypatch, metrics, value):
    monkeypatch.setattr(train_runs, "load_run", lambda folder: SimpleNamespace(config={"metrics": metrics}))
    assert train_runs.validation_metric(Path()) == value
    metrics.clear()
    with pytest.raises(UserError, match="can be searched by"):
        train_runs.validation_metric(Path())


def test_a_design_can_start_from_a_trained_run(compared, reviews, tmp_path):
    before = compared / "runs/han-embed=12-hidden=8-attention=8/seed-0"
    from_there = {"label": "taught", "warm_start": str(before), "model": {"name": "han"}}
    settings = {key: value for key, value in small_request(reviews).settings.items() if key != "tokenizer"}
    options = {"models": [from_there], "settings": settings, "seeds": 1, "budget": ["2steps"]}
    results = run(small_request(reviews, **options), tmp_path / "out")
    assert results["failures"] == results["skipped"] == {}
    config = json.loads((tmp_path / "out/runs/taught/seed-0/config.json").read_text())
    assert config["settings"]["model"]["embed"] == 12
    assert config["warm_start"]["loaded"]


def test_planning_trains_nothing(reviews, tmp_path):
    with collect_messages() as messages:
        plan = plan_comparison(small_request(reviews), tmp_path / "out")
    assert {planned.name: planned.steps for planned in plan.designs}[MODELS[0]] == 4
    assert not (tmp_path / "out/runs").exists()
    assert any("6 runs of 4 steps" in line for line in messages)
    assert any("MB" in line for line in messages)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"models": ["hahn"]}, "did you mean 'han'"),
        ({"models": []}, "name the models"),
        ({"vary": {"nonsense.key": ["1"]}}, "nonsense.key"),
        ({"metric": "acuracy"}, "did you mean 'accuracy'"),
        ({"models": ["han", "han"]}, "two designs"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"budget": ["2min", "3epochs"]}, "one budget"),
    ],
)
def test_invalid_requests_raise(reviews, tmp_path, change, problem):
    with pytest.raises(UserError, match=problem):
        run(small_request(reviews, **change), tmp_path / "out")


def test_a_folder_with_other_files_raises(reviews, tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(UserError, match="not a comparison"):
        run(small_request(reviews), tmp_path)


def test_the_request_can_be_read_from_the_plan(compared):
    kept = json.loads((compared / "plan.json").read_text())["request"]
    assert ComparisonRequest(**kept).models == MODELS


def test_compare_returns_a_typed_result(reviews, tmp_path):
    result = compare("classify", reviews, models="tfidf,nb-svm", seeds=1, out=tmp_path / "out", progress=False)
    assert result.ranks == {row["name"]: row["rank"] for row in result.rows}
    assert set(result.ranks) == {"tfidf", "nb-svm"}
    assert result.report.is_file()
    text = repr(result)
    assert "95 % interval" in text
    assert result.recommendation in text
    assert str(result.report) in text
    assert result._repr_html_().count("<tr>") == 3
    frame = result.to_frame()
    assert len(frame) == 2
    assert {"rank", "name", "accuracy", "low", "high", "macro_f1"} <= set(frame.columns)
