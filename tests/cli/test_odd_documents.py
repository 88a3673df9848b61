"""Documents as people have them: of one word or very long, in any script, repeated, unbalanced, with several labels."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.data.read_table import Table

QUIET = {"progress": False}
SMALL = {
    "han": {"embed": 8, "hidden": 8, "attention": 8},
    "context-han": {"embed": 8, "hidden": 8, "attention": 8},
    "self-attentive": {"embed": 8, "hidden": 8, "attention": 8, "features": 8, "hops": 3},
    "transformer": {"dim": 16, "heads": 2, "hidden": 16, "layers": 1},
    "bilstm": {"embed": 8, "hidden": 8},
    "cnn": {},
    "kim-cnn": {},
    "gated-cnn": {"dim": 8, "layers": 2},
    "tfidf": {},
    "nb-svm": {},
}
ODD = [
    "word",
    "😀",
    "👨‍👩‍👧 👍🏽 😀😀",
    "... !!! ?\n\n\n. . .\n<br /><br />",
    "我很喜欢这家酒店。房间很干净！早餐也不错。",
    "كان الفندق جيدا جدا. الغرفة نظيفة!",
    "यह अच्छा है। बहुत अच्छा।",
    "Ünïcödé e\u0301 \u200b\u200d\ufeff zero width",
    "The end.",
    "A.B.C." * 50,
]


def table(texts: list[str], labels: list[str]) -> Table:
    return Table(texts, labels, [], "f", len(texts))


def write(path: Path, rows: list[tuple[str, str]]) -> None:
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in rows]
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("model", SMALL)
def test_any_script_and_any_shape(model: str, tmp_path: Path):
    labels = ["a" if i % 2 else "b" for i in range(len(ODD))]
    settings = {"model": SMALL[model], "train": {} if model in ("tfidf", "nb-svm") else {"steps": 2}}
    run = regard.train("classify", table(ODD, labels), model=model, out=tmp_path, settings=settings, **QUIET)
    found = run.probabilities(ODD)
    assert np.isfinite(found).all()
    assert found.sum(1) == pytest.approx(1, abs=1e-5)
    for text, row in zip(ODD, found, strict=True):  # alone as among others
        assert run.predict(text).probabilities["b"] == pytest.approx(row[1], abs=1e-5)
    if model in ("tfidf", "nb-svm", "cnn", "kim-cnn"):
        return
    for text in ODD:
        seen = run.look(text, faithful=False)
        assert sum(seen.data["weights"]) == pytest.approx(1, abs=1e-4)
        assert seen.svg().count("<text") >= 2
        assert "<html" in seen.html()


@pytest.mark.parametrize("model", ["tfidf", "nb-svm"])
def test_a_bag_of_words_learns_scripts_without_spaces(model: str, tmp_path: Path):
    draw = random.Random(0)
    texts, labels = [], []
    for i in range(80):
        padding = "".join(draw.choices("的一是在不了有和人这中大为上个国", k=12))
        at = draw.randrange(12)
        texts.append(padding[:at] + ("好" if i % 2 else "坏") + padding[at:])
        labels.append("good" if i % 2 else "bad")
    run = regard.train("classify", table(texts, labels), model=model, out=tmp_path, **QUIET)
    assert run.predict("这家店好").label == "good"
    assert run.predict("这家店坏").label == "bad"


MEASURED = """
import atexit, sys
from regard.cli import main
memory = lambda: [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
atexit.register(lambda: print(memory(), file=sys.stderr))
main()
"""
"""The command line, which tells its greatest memory at the end; getrusage would count what the parent held."""


@pytest.mark.slow
def test_fifty_thousand_words(tmp_path: Path):
    """Cut, and told so; in sane time and memory."""
    draw = random.Random(0)
    long = [" ".join(draw.choices(["word", "other", "end.", "So"], k=50_000)) for _ in range(2)]
    short = [(f"{word} {i}", label) for word, label in (("good", "a"), ("bad", "b")) for i in range(20)]
    write(tmp_path / "long.jsonl", [*short, (long[0], "a"), (long[1], "b")])
    (tmp_path / "one.txt").write_text(long[0])
    environment = {**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1])}

    def go(words: str, **more) -> str:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *shlex.split(words)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, **more,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert int(done.stderr.split()[-2]) < 1_500_000  # kB
        return done.stdout + done.stderr

    assert "2 documents were truncated to 2000 tokens" in go("train classify long.jsonl --steps 2 --out run")
    assert "1 of 1 texts were truncated to 2000 tokens" in go("predict run", stdin=(tmp_path / "one.txt").open())
    seen = regard.load(tmp_path / "run").look(long[0], faithful=False)
    assert len(seen.data["tokens"]) == 2000
    assert "truncated to the first 2000" in seen.data["notes"][0]
    assert "more characters, which were truncated" in seen.svg()
    assert len(seen.svg()) < 2_000_000


def test_classes_of_five_and_many_of_them(cli, tmp_path: Path):
    write(tmp_path / "many.jsonl", [(f"about thing{c} number {i}", f"class {c}") for c in range(60) for i in range(5)])
    for model in ("han", "tfidf", "nb-svm"):
        length = "--steps 2" if model == "han" else ""
        code, _, err = cli(*shlex.split(f"train classify many.jsonl --model {model} {length} --out {model} -q"))
        assert code == 0, err
        code, out, _ = cli("evaluate", model, "many.jsonl")
        assert code == 0
        assert "and 20 smaller classes" in out
        code, out, _ = cli("evaluate", model, "many.jsonl", "--json")
        found = json.loads(out)
        assert len(found["classes"]) == 60
        assert {row["support"] for row in found["classes"].values()} == {5}
        if model != "han":
            assert found["macro_f1"] > 0.9


def test_unbalanced_classes_are_told_and_weighed(cli, tmp_path: Path):
    draw = random.Random(1)
    words = ["film", "room", "soup", "day", "walk"]
    rows = []
    for i in range(300):
        rare = i % 30 == 0
        mark = "odd" if draw.random() < (0.7 if rare else 0.08) else "plain"
        rows.append((" ".join([*draw.choices(words, k=4), mark]), "rare" if rare else "common"))
    write(tmp_path / "data.jsonl", rows)
    f1 = {}
    for name, more in (("plain", ""), ("weighed", "--class-weights balanced"), ("given", "--class-weights rare=20")):
        for model in ("nb-svm", "tfidf"):
            code, out, err = cli(*shlex.split(f"train classify data.jsonl --model {model} {more} --out {name}-{model}"))
            assert code == 0, err
            assert ("classes are unbalanced: 'common' has" in out) == (name == "plain")
            code, out, _ = cli("evaluate", f"{name}-{model}", "data.jsonl", "--json")
            found = json.loads(out)
            f1[name, model] = found["classes"]["rare"]["recall"]
            assert found["most_frequent"] == pytest.approx(290 / 300)
    for model in ("nb-svm", "tfidf"):
        assert f1["weighed", model] > f1["plain", model]
        assert f1["given", model] > f1["plain", model]
    code, out, _ = cli("evaluate", "plain-tfidf", "data.jsonl")
    assert "macro_f1" in out
    assert "most_frequent   0.9667" in out


def test_class_weights_reach_the_loss_of_a_network(tmp_path: Path):
    texts, labels = [f"text number {i}" for i in range(100)], ["common"] * 90 + ["rare"] * 10
    chance = {}
    for weights in ("none", "balanced", "rare=100"):
        settings = {
            "model": SMALL["bilstm"] | {"dropout": 0.0},
            "train": {"steps": 60, "lr": 0.01, "evaluate_every": 60},
            "data": {"class_weights": weights, "max_tokens": 1},  # all texts the same: only the prior can be learnt
        }
        out = tmp_path / weights.replace("=", "")
        run = regard.train("classify", table(texts, labels), model="bilstm", settings=settings, out=out, **QUIET)
        chance[weights] = run.predict("text").probabilities["rare"]
    assert chance["none"] < 0.3
    assert 0.3 < chance["balanced"] < 0.7
    assert chance["rare=100"] > 0.8


def test_repeated_documents_are_counted(cli, tmp_path: Path):
    rows = [(f"a {w} film number {i}", w) for i in range(20) for w in ("good", "bad")]
    write(tmp_path / "train.jsonl", rows)
    write(tmp_path / "valid.jsonl", [*rows[:3], ("A  GOOD film number 2", "good"), ("all new", "bad")])
    code, out, _ = cli(*shlex.split("train classify train.jsonl --valid valid.jsonl --model tfidf --out run"))
    assert code == 0
    assert "warning: 4 of the 5 validation documents are also in the training part" in out
    assert json.loads((tmp_path / "run/config.json").read_text())["data"]["repeated"] == 4


@pytest.mark.parametrize("model", ["tfidf", "nb-svm"])
def test_what_a_bag_of_words_does_not_use_is_told(model: str, cli):
    more = "--epochs 3 --tokenizer bpe --batch-tokens 100"
    code, out, err = cli(*shlex.split(f"train classify reviews.csv --model {model} {more} --out run"))
    assert code == 0, err
    said = "fitted to all texts in one call and does not use train.epochs, tokenizer.kind, data.batch_tokens"
    assert f"{model} is {said}" in out
    _, out, _ = cli(*shlex.split(f"train classify reviews.csv --model {model} --out other"))
    assert "does not use" not in out


@pytest.mark.parametrize("model", ["bilstm", "tfidf", "nb-svm"])
def test_several_labels_a_document(model: str, cli, tmp_path: Path):
    draw = random.Random(0)
    rows = []
    for _ in range(240):
        labels = [name for name in ("food", "room", "price") if draw.random() < 0.4]
        words = [name + "word" for name in labels] + draw.choices(["we", "came", "and", "left"], k=4)
        draw.shuffle(words)
        rows.append((" ".join(words), ";".join(labels)))
    write(tmp_path / "many.jsonl", rows)
    length = "--steps 60 --lr 0.02 --set model.hidden=16" if model == "bilstm" else ""
    command = f"train classify many.jsonl --multi-label --class-weights balanced --model {model} {length} --out run"
    code, out, err = cli(*shlex.split(command))
    assert code == 0, err
    assert "3 labels separated by ';'" in out
    assert "subset_accuracy" in out
    code, out, _ = cli("evaluate", "run", "many.jsonl", "--json")
    found = json.loads(out)
    assert found["micro_f1"] > 0.95
    assert found["subset_accuracy"] > 0.9
    assert "most_frequent" not in found
    code, out, _ = cli("predict", "run", "we foodword and priceword", "--json")
    said = json.loads(out)
    assert sorted(said["labels"]) == ["food", "price"]
    assert set(said["probabilities"]) == {"food", "room", "price"}
    code, out, _ = cli("predict", "run", "we came and left", "--json")
    assert json.loads(out)["labels"] == []
    code, out, _ = cli("predict", "run", stdin="we foodword and roomword\nwe came and left\n")
    lines = out.splitlines()
    assert lines[0].split("\t")[0] == "food|room"
    assert lines[1].startswith("-\t-\t")
    if model == "bilstm":
        again = regard.load("run")
        seen = again.look("we foodword and priceword", label="price")
        assert seen.data["prediction"]["label"] == "price"
        assert "p(price)" in seen.data["faithfulness"]["metrics"][0]["description"]
        assert sum(seen.data["prediction"]["probabilities"].values()) > 1.2  # each for itself
        code, _, err = cli("look", "run", "we foodword", "--label", "prce", "--out", "x.html")
        assert code == 2
        assert "did you mean 'price'" in err
    write(tmp_path / "strange.jsonl", [("we came", "food;pool")])
    code, _, err = cli("evaluate", "run", "strange.jsonl")
    assert code == 2
    assert "'pool'" in err


def test_several_labels_in_a_cell_are_noticed(cli, tmp_path: Path):
    draw, names = random.Random(0), ["drama", "war", "love", "crime", "music"]
    several = [("a film", "|".join(draw.sample(names, draw.randint(1, 4)))) for _ in range(200)]
    hint = "labels contain '|'. If a document can have several labels, use --multi-label"
    for rows, more, told in (
        (several, "", True),
        (several, "--multi-label", False),
        ([("a film", name) for _, name in zip(range(200), names * 40, strict=True)], "", False),
        ([("a film", "news|sport" if i % 2 else "war|love") for i in range(200)], "", False),  # names with marks
    ):
        write(tmp_path / "data.jsonl", rows)
        _, out, _ = cli(*shlex.split(f"train classify data.jsonl --model tfidf --out run --overwrite {more}"))
        assert (hint in out) == told


def test_lists_of_labels_are_noticed(cli, tmp_path: Path):
    rows = [{"text": f"{name} {i}", "label": [name, "all"]} for i in range(12) for name in ("war", "love")]
    Path(tmp_path, "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, out, _ = cli(*shlex.split("train classify data.jsonl --model tfidf --out run"))
    assert "labels are lists. If a document can have several labels, use --multi-label" in out


@pytest.mark.parametrize("model", ["tfidf", "cnn", "bilstm pool=last", "bilstm", "han"])
def test_a_card_says_what_is_true_of_the_model(model: str, cli, tmp_path: Path):
    name, *more = model.split()
    small = "" if name == "tfidf" else f"--steps 1 {'--set model.dim=8' if name == 'cnn' else '--set model.hidden=8'}"
    more = " ".join(f"--set model.{each}" for each in more)
    code, _, err = cli(*shlex.split(f"train classify reviews.csv --model {name} {small} {more} --out run -q"))
    assert code == 0, err
    card = (tmp_path / "run/README.md").read_text()
    assert ("regard look FOLDER" in card) == (model in ("bilstm", "han"))
    assert ("slightly optimistic" in card) == (name != "tfidf")
    assert "easure it on your own data:\n\n    regard predict FOLDER" in card
    code, _, err = cli("look", "run", "We loved it.", "--no-faithful", "--out", "look.html")
    assert code == (0 if "regard look" in card else 2), err
    assert code == 0 or "bilstm with pool=attention have some" in err


def test_a_slip_in_the_options_is_told(cli):
    for slip, said in (
        ("--set data.multi_label=mny", "multi_label"),
        ("--class-weights fair", "must be balanced"),
        ("--class-weights positiv=2", "did you mean 'positive'"),
        ("--multi-label --set data.separator=''", "separator"),
        ("--label-smoothing 1", "at least 0 and less than 1"),
    ):
        code, _, err = cli(*shlex.split(f"train classify reviews.csv --steps 1 --out run -q {slip}"))
        assert code == 2, slip
        assert said in err


def test_a_look_is_saved_as_a_drawing(cli, classifier_run: Path, tmp_path: Path):
    for name, begins in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.html", b"<!doctype html>")):
        code, out, err = cli("look", str(classifier_run), "We loved it. It was dull.", "--out", f"new/{name}")
        assert code == 0, err
        assert f"new/{name}" in out
        assert (tmp_path / "new" / name).read_bytes().startswith(begins)
    code, _, err = cli("look", str(classifier_run), "We loved it.", "--out", "a.pdf")
    assert code == 2
    assert ".html, .svg, .png" in err
