"""A comparison from end to end: what it writes, that it goes on, repeats itself, and survives what fails."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from comparing import MODELS, asked, table

from regard.comparison import compare_designs
from regard.comparison import runner as runners
from regard.comparison.compare_designs import Stopped
from regard.comparison.designs import Asked
from regard.comparison.plan import replay
from regard.config.messages import collect_messages
from regard.data.train_valid_split import count_duplicates
from regard.errors import UserError
from regard.tasks.base_run import Run
from regard.training.interrupts import Interrupted


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_table_says_what_the_runs_did(compared):
    found = json.loads((compared / "results.json").read_text())
    assert {row["name"] for row in found["rows"]} == set(MODELS)
    assert (found["runs"], found["trained"], found["measured"]) == (6, 6, 6)
    test = lines(compared / "parts/test.jsonl")
    assert found["items"] == {"train": 116, "valid": 12, "test": 32}
    for row in found["rows"]:
        folder = compared / "runs" / row["name"].replace(":", "-").replace(",", "-")
        reached = [Run.load(folder / f"seed-{s}").evaluate(compared / "parts/test.jsonl") for s in (0, 1)]
        assert row["values"] == pytest.approx([r["accuracy"] for r in reached])
        assert row["mean"] == pytest.approx(np.mean(row["values"]))
        assert row["others"]["macro_f1"] == pytest.approx(np.mean([r["macro_f1"] for r in reached]))
        assert row["others"]["loss"] == pytest.approx(np.mean([r["loss"] for r in reached]), rel=1e-4)
        assert row["low"] <= row["mean"] <= row["high"]
        said = lines(compared / "scores" / folder.name / "seed-0.jsonl")
        right = np.mean([s["said"] == t["label"] for s, t in zip(said, test, strict=True)])
        assert right == pytest.approx(row["values"][0])
        assert row["steps"] == (0 if row["name"] == "tfidf" else 4)
    han = next(row for row in found["rows"] if row["name"].startswith("han"))
    assert 0 < han["evidence"] < 1
    assert han["faithful"] is not None
    assert han["flops"] > 0
    assert han["memory"] > 16 * han["parameters"]
    with (compared / "results.csv").open() as file:
        assert [row["name"] for row in csv.DictReader(file)] == [row["name"] for row in found["rows"]]


def test_the_parts_share_nothing_that_is_not_counted(compared):
    parts = {
        part: [row["text"] for row in lines(compared / f"parts/{part}.jsonl")] for part in ("train", "valid", "test")
    }
    told = json.loads((compared / "results.json").read_text())["repeated"]
    assert told["test in training"] == count_duplicates(parts["train"], parts["test"])
    assert told["validation in training"] == count_duplicates(parts["train"], parts["valid"])


def test_a_second_run_from_the_recorded_steps_gives_the_same_table(compared, tmp_path):
    again = replay(compared, tmp_path / "again")
    compare_designs(again, tmp_path / "again", progress=False)
    assert table(tmp_path / "again") == table(compared)
    one, other = (out / "runs/tfidf/seed-0/model.safetensors" for out in (compared, tmp_path / "again"))
    assert one.read_bytes() == other.read_bytes()


def test_stopped_it_reports_what_is_done_and_goes_on(compared, reviews, tmp_path, monkeypatch):
    real, calls = runners.train, []

    def stopping(task, **how):
        calls.append(how["out"])
        if len(calls) == 3:
            raise Interrupted(how["out"], 2)
        return real(task, **how)

    monkeypatch.setattr(runners, "train", stopping)
    with pytest.raises(Stopped) as stop:
        compare_designs(asked(reviews), tmp_path / "out", progress=False)
    assert stop.value.found["measured"] == 2
    assert "2 of 6 runs" in (tmp_path / "out/report.html").read_text()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out/scores").rglob("seed-*")}
    compare_designs(asked(reviews), tmp_path / "out", progress=False)
    assert len(calls) == 7  # three, and the four that were missing
    assert {p: p.stat().st_mtime_ns for p in before} == before  # the test part is touched once
    assert table(tmp_path / "out") == table(compared)


def test_stopped_while_measuring_it_reports_what_is_measured(compared, tmp_path, monkeypatch):
    shutil.copytree(compared, tmp_path / "out")
    shutil.rmtree(tmp_path / "out/scores")
    (tmp_path / "out/report.html").unlink()
    real, calls = runners.score_one, []

    def stopping(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(runners, "score_one", stopping)
    with pytest.raises(Stopped) as stop:
        compare_designs(replay(compared, tmp_path / "out"), tmp_path / "out", progress=False)
    assert stop.value.found["measured"] == 2
    assert "2 of 6 runs" in (tmp_path / "out/report.html").read_text()


def test_a_run_that_fails_is_told_and_the_rest_goes_on(reviews, tmp_path, monkeypatch):
    real = runners.train

    def failing(task, **how):
        if "transformer" in str(how["out"]) and how["seed"] == 1:
            raise RuntimeError("out of luck")
        return real(task, **how)

    monkeypatch.setattr(runners, "train", failing)
    found = compare_designs(asked(reviews), tmp_path / "out", progress=False)
    assert found["measured"] == 5
    assert list(found["failures"].values()) == ["out of luck"]
    assert {row["name"]: len(row["seeds"]) for row in found["rows"]} == dict(zip(MODELS, (2, 1, 2), strict=True))
    assert "out of luck" in (tmp_path / "out/report.html").read_text()
    monkeypatch.undo()
    assert compare_designs(asked(reviews), tmp_path / "out", progress=False)["failures"] == {}


def test_seeds_and_models_can_be_added(compared, reviews, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(compared, out)
    found = compare_designs(asked(reviews, models=[*MODELS, "nb-svm"], seeds=3), out, progress=False)
    assert found["measured"] == 12
    old = {row["name"]: row["values"] for row in table(compared)}
    for row in found["rows"]:
        if row["name"] in old:
            assert row["values"][:2] == old[row["name"]]
    other = {"label": "tfidf", "model": {"name": "tfidf", "ngrams": 1}}
    with pytest.raises(UserError, match="another 'tfidf'"):
        compare_designs(asked(reviews, models=[other]), out, progress=False)
    with pytest.raises(UserError, match="budget was"):
        compare_designs(asked(reviews, budget=["5steps"]), out, progress=False)


def test_a_grid_and_what_cannot_be_combined(reviews, tmp_path):
    vary = {"mechanism": ["dot", "synthesizer-dense:length=256"], "positions": ["none", "rotary"]}
    models = ["transformer:dim=16,hidden=16,layers=1,heads=2", "tfidf"]
    with collect_messages() as messages:
        found = compare_designs(
            asked(reviews, models=models, vary=vary, seeds=1, budget=["2steps"]), tmp_path / "out", progress=False
        )
    names = {row["name"] for row in found["rows"]}
    assert f"{models[0]}, dot, rotary" in names
    assert "tfidf" in names
    assert len(names) == 4
    assert list(found["left_out"]) == [f"{models[0]}, synthesizer-dense:length=256, rotary"]
    assert any("tfidf has no mechanism" in line for line in messages)


def test_a_search_is_within_the_budget(reviews, tmp_path):
    how = {"models": MODELS[:1], "seeds": 1, "budget": ["20steps"], "search": {"lr": ["0.0001", "0.02"]}}
    found = compare_designs(asked(reviews, **how), tmp_path / "out", progress=False)
    row = found["rows"][0]
    assert row["steps"] == 20 - 2 * 3
    assert row["chosen"]["lr"] in ("0.0001", "0.02")
    config = json.loads(next((tmp_path / "out/runs").rglob("config.json")).read_text())
    assert config["settings"]["train"]["lr"] == float(row["chosen"]["lr"])
    assert config["settings"]["train"]["steps"] == 14


def test_a_value_that_fails_loses_neither_the_search_nor_the_budget(reviews, tmp_path):
    """Of the heads one number does not divide the width; the bag of words has none and takes part as it is."""
    how = {"models": MODELS[1:], "seeds": 1, "budget": ["20steps"], "search": {"heads": ["3", "2"]}}
    with collect_messages() as messages:
        found = compare_designs(asked(reviews, **how), tmp_path / "out", progress=False)
    assert found["failures"] == {}
    assert any("heads=3 fails" in line for line in messages)
    rows = {row["name"]: row for row in found["rows"]}
    assert rows[MODELS[1]]["chosen"] == {"heads": "2"}
    assert rows[MODELS[1]]["steps"] == 14
    assert "chosen" not in rows["tfidf"]


@pytest.mark.parametrize(
    ("metrics", "value"),
    [
        ({"exact": 0.4}, 0.4),
        ({"loss": 2.0, "perplexity": 7.4}, -2.0),
        ({"bleu": 9.0, "accuracy": 0.1}, 9.0),
        ({"bleu_lc": 9.0, "accuracy": 0.1}, 9.0),
    ],
)
def test_what_a_search_chooses_by(monkeypatch, metrics, value):
    monkeypatch.setattr(runners, "opened", lambda folder: SimpleNamespace(config={"metrics": metrics}))
    assert runners._validation(Path()) == value
    metrics.clear()
    with pytest.raises(UserError, match="nothing to choose by"):
        runners._validation(Path())


def test_a_design_can_start_from_a_trained_run(compared, reviews, tmp_path):
    before = compared / "runs/han-embed=12-hidden=8-attention=8/seed-0"
    from_there = {"label": "taught", "warm_start": str(before), "model": {"name": "han"}}
    settings = {key: value for key, value in asked(reviews).settings.items() if key != "tokenizer"}
    how = {"models": [from_there], "settings": settings, "seeds": 1, "budget": ["2steps"]}
    found = compare_designs(asked(reviews, **how), tmp_path / "out", progress=False)
    assert found["failures"] == found["left_out"] == {}
    config = json.loads((tmp_path / "out/runs/taught/seed-0/config.json").read_text())
    assert config["settings"]["model"]["embed"] == 12
    assert config["warm_start"]["loaded"]


def test_nothing_is_trained_in_a_dry_run(reviews, tmp_path):
    with collect_messages() as messages:
        found = compare_designs(asked(reviews), tmp_path / "out", dry=True)
    assert found["steps"][MODELS[0]] == 4
    assert not (tmp_path / "out/runs").exists()
    assert any("6 runs of 4 steps" in line for line in messages)
    assert any("MB" in line for line in messages)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"models": ["hahn"]}, "did you mean 'han'"),
        ({"models": []}, "which models"),
        ({"vary": {"nonsense.key": ["1"]}}, "nonsense.key"),
        ({"measure": "acuracy"}, "did you mean 'accuracy'"),
        ({"models": ["han", "han"]}, "two designs"),
        ({"seeds": 0}, "at least one seed"),
        ({"budget": ["2min", "3epochs"]}, "one budget"),
    ],
)
def test_what_cannot_be_meant_is_said(reviews, tmp_path, change, problem):
    with pytest.raises(UserError, match=problem):
        compare_designs(asked(reviews, **change), tmp_path / "out", progress=False)


def test_a_folder_of_something_else_is_left_alone(reviews, tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(UserError, match="no comparison"):
        compare_designs(asked(reviews), tmp_path)


def test_what_was_asked_can_be_read_again(compared):
    kept = json.loads((compared / "plan.json").read_text())["asked"]
    assert Asked(**kept).models == MODELS
