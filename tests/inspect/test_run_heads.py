"""Head importance of trained runs over a dataset, pruned runs, and looks of language models and translators."""

from __future__ import annotations

import csv
import json

import pytest

import regard
from regard.data.synthetic.reviews import generate_reviews
from regard.errors import UserError
from regard.hub.load_any import load_any
from regard.inspect import ablate, edit
from regard.tasks.base_run import Run
from regard.tasks.head_table import measure_heads, prune_run

FILES = {"classify": "reviews.csv", "language": "corpus.txt", "translate": "pairs.tsv"}
QUIET = {"progress": False}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    reviews = generate_reviews(80, 0)
    with (folder / "reviews.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((r.text, r.label) for r in reviews)])
    (folder / "corpus.txt").write_text("\n".join(r.text for r in reviews))
    pairs = [" ".join(r.text.split()[:5]) for r in reviews]
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in pairs))
    small, words = {"dim": 16, "layers": 2, "heads": 2}, {"vocab_size": 400}
    options = {
        "classify": ({"model": "transformer"}, {"model": small}),
        "language": (
            {"model": "gpt", "objective": "causal"},
            {"model": small, "data": {"block_size": 32}, "tokenizer": words},
        ),
        "translate": ({"model": "transformer"}, {"model": {**small, "hidden": 16}, "tokenizer": words}),
    }
    trained = {
        task: regard.train(task, folder / FILES[task], **names, settings=settings, steps=4, out=folder / task, **QUIET)
        for task, (names, settings) in options.items()
    }
    return folder, trained


@pytest.mark.parametrize("task", FILES)
def test_the_table_equals_each_ablation(runs, task):
    folder, trained = runs
    run = trained[task]
    result = measure_heads(run, [folder / FILES[task]], rows=30)
    assert result.rows == sorted(result.rows, key=lambda row: -row.change["loss"])
    row = next(row for row in result.rows if row.head == 1)
    with edit(run.model, row.layer, ablate([1])):
        ablated = measure_heads(run, [folder / FILES[task]], rows=30)
    assert ablated.baseline["loss"] == pytest.approx(row.metrics["loss"], abs=1e-6)
    assert row.metrics["loss"] - result.baseline["loss"] == pytest.approx(row.change["loss"])
    assert row.layer in str(result)
    assert {"loss"} <= result.baseline.keys()


def test_the_table_is_saved(runs, tmp_path):
    folder, trained = runs
    result = measure_heads(trained["classify"], [folder / "reviews.csv"], rows=10)
    rows = list(csv.DictReader(result.save(tmp_path / "heads.csv").open()))
    assert len(rows) == len(result.rows) == 2 * (2 + 2) + 2
    assert float(rows[0]["change of loss"]) == pytest.approx(result.rows[0].change["loss"])
    assert json.loads(result.save(tmp_path / "heads.json").read_text())["baseline"] == result.baseline
    with pytest.raises(UserError, match=r"\.csv or \.json"):
        result.save(tmp_path / "heads.txt")


def test_a_pruned_run_is_saved_and_equals_its_ablation(runs, tmp_path):
    _, trained = runs
    run = trained["classify"]
    texts = ["We loved it.", "The soup was cold and the bill was large."]
    with edit(run.model, "layers.1.attention.attend", ablate([0])):
        expected = run.probabilities(texts)
    folder = prune_run(run, ["layers.1:0"]).save_pretrained(tmp_path / "pruned")
    assert Run.load(folder).probabilities(texts) == pytest.approx(expected, abs=1e-6)
    assert run.probabilities(texts) != pytest.approx(expected, abs=1e-9)  # the run itself keeps its head
    with pytest.raises(UserError, match="named LAYER:HEADS"):
        prune_run(run, ["layers.1"])
    with pytest.raises(UserError, match="names 0"):
        prune_run(run, ["layers.7:0"])
    with pytest.raises(UserError, match="heads 0 to 1"):
        prune_run(run, ["layers.1:2"])


def test_two_checkpoints_are_compared(runs):
    folder, _ = runs
    kept = sorted((folder / "classify" / "state").glob("step-*"))
    text = "We loved it. The soup was cold."
    last = load_any(kept[-1]).look(text, faithful=False)
    assert last.data["prediction"]["probabilities"]
    both = last.compare_with(load_any(folder / "classify").look(text, faithful=False))
    assert "Two runs on the same text" in both.html()
    with pytest.raises(UserError, match="has: step-"):
        load_any(folder / "classify" / "state" / "step-0000099")


def test_looks_of_language_models_and_translators(runs):
    _, trained = runs
    names = ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]
    look = trained["language"].look("We loved the food and the room was", what_if=["hide:food", "ablate:layers.0"])
    assert [row["description"] for row in look.data["interventions"]][:2] == ["without “food”", "layers.0 ablated"]
    assert [row["name"] for row in look.data["faithfulness"]["metrics"]] == names
    assert "log p(" in look.data["faithfulness"]["metrics"][0]["description"]
    assert "<html" in look.html()
    look = trained["translate"].look("we came on a rainy day")
    assert look.data["text"].startswith("we came on a rainy day\n")
    assert "<html" in look.html()
