"""`regard verify RUN`: a correct run passes every check that applies, and a broken model fails."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import regard
from regard.attention.masks import Mask
from regard.data.synthetic.reviews import generate_reviews
from regard.errors import UserError
from regard.theory import run_checks
from regard.theory.claim import CheckResult


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A causal language model with rotary positions, and a classifier."""
    folder = tmp_path_factory.mktemp("runs")
    quiet = {"progress": False}
    reviews = generate_reviews(80, 0)
    (folder / "corpus.txt").write_text("\n".join(r.text for r in reviews) + "\n")
    sizes = {"dim": 16, "layers": 2, "heads": 2, "positions": "rotary"}
    settings = {"model": sizes, "data": {"block_size": 24}, "tokenizer": {"vocab_size": 300}}
    regard.train(
        "language", folder / "corpus.txt", model="gpt", objective="causal", steps=2, out=folder / "gpt",
        settings=settings, **quiet,
    )  # fmt: skip
    lines = ["review,sentiment", *(f'"{r.text}",{r.label}' for r in reviews)]
    (folder / "reviews.csv").write_text("\n".join(lines) + "\n")
    small = {"model": {"dim": 16, "layers": 1, "heads": 2, "hidden": 24}}
    regard.train(
        "classify",
        folder / "reviews.csv",
        model="transformer",
        steps=2,
        out=folder / "encoder",
        settings=small,
        **quiet,
    )
    regard.train("classify", folder / "reviews.csv", model="tfidf", out=folder / "tfidf", **quiet)
    pairs = {"dog": "Hund", "cat": "Katze", "red": "rot", "old": "alt", "a": "ein"}
    rows = [[*pairs][i % 5 :] + [*pairs][: i % 3] for i in range(60)]
    (folder / "train.en").write_text("".join(f"{' '.join(row)}\n" for row in rows))
    (folder / "train.de").write_text("".join(f"{' '.join(pairs[word] for word in row)}\n" for row in rows))
    files = [folder / "train.en", folder / "train.de"]
    settings = {"tokenizer": {"kind": "spaces"}, "model": {"dim": 16, "hidden": 24, "layers": 1, "heads": 2}}
    regard.train(
        "translate", files, model="transformer", steps=2, out=folder / "translator", settings=settings, **quiet
    )
    settings = {"tokenizer": {"kind": "spaces"}, "model": {"dim": 16, "hidden": 24}}
    regard.train("translate", files, model="rnn", steps=2, out=folder / "rnn", settings=settings, **quiet)
    return folder


@pytest.mark.parametrize("name", ["translator", "rnn"])
def test_a_correct_translator(runs, name):
    results = run_checks.check_run(runs / name)
    verdicts = verdicts_by_id(results)
    assert {"no-leak", "padding", "batch", "beam-1", "saved"} <= set(verdicts)
    assert ("kv-cache" if name == "translator" else "steps") in verdicts
    bad = [result.as_dict() for result in results if result.verdict != "holds" and result.id != "compiled"]
    assert not bad


def verdicts_by_id(results) -> dict[str, str]:
    return {result.id: result.verdict for result in results}


def test_a_correct_language_model(runs):
    results = run_checks.check_run(runs / "gpt")
    verdicts = verdicts_by_id(results)
    assert {"no-leak", "padding", "batch", "kv-cache", "greedy", "permutation", "shift", "saved", "compiled"} <= set(
        verdicts
    )
    assert "merged" not in verdicts  # rotary positions cannot be merged
    assert set(verdicts.values()) == {"holds"}, [result.as_dict() for result in results if result.verdict != "holds"]


def test_a_correct_classifier(runs):
    results = run_checks.check_run(runs / "encoder")
    verdicts = verdicts_by_id(results)
    assert {"padding", "batch", "permutation", "merged", "saved"} <= set(verdicts)
    assert "no-leak" not in verdicts
    assert {v for k, v in verdicts.items() if k != "compiled"} == {"holds"}, [result.as_dict() for result in results]


def test_a_leak_fails(runs, monkeypatch):
    subject = run_checks.build_subject(regard.load(str(runs / "gpt")), 0)
    assert run_checks.check_no_leak(subject).verdict == "holds"
    monkeypatch.setattr(Mask, "is_plain_causal", lambda self, q_pos, k_pos: False)
    monkeypatch.setattr(Mask, "allowed", lambda self, q_pos, k_pos, device: None)
    assert run_checks.check_no_leak(subject).verdict == "fails"


def test_padding_with_influence_fails(runs):
    subject = run_checks.build_subject(regard.load(str(runs / "encoder")), 0)
    assert run_checks.check_padding(subject).verdict == "holds"
    unmasked = replace(subject, logits=lambda m, ids, mask: subject.logits(m, ids, torch.ones_like(mask)))
    assert run_checks.check_padding(unmasked).verdict == "fails"


def test_rows_that_influence_each_other_fail(runs):
    subject = run_checks.build_subject(regard.load(str(runs / "encoder")), 0)

    def mixed(m, ids, mask):
        out = subject.logits(m, ids, mask)
        return out + out.mean(0, keepdim=True)

    assert run_checks.check_batch(replace(subject, logits=mixed)).verdict == "fails"


def test_absolute_positions_fail_the_shift(runs):
    subject = run_checks.build_subject(regard.load(str(runs / "gpt")), 0)
    assert run_checks.check_shift(subject).verdict == "holds"
    with torch.no_grad():
        embeddings = subject.model.embed.weight.clone()
    subject.model.positions = regard.attention.positions.build("sinusoidal", 16, 2)
    assert run_checks.check_shift(subject).verdict == "fails"
    assert torch.equal(embeddings, subject.model.embed.weight)


def test_a_failed_compilation_is_undecided(runs, monkeypatch):
    subject = run_checks.build_subject(regard.load(str(runs / "gpt")), 0)

    def raise_error(*args, **kwargs):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", raise_error)
    result = run_checks.check_compiled(subject)
    assert result.verdict == "undecided"
    assert "no compiler" in json.dumps(dict(result.figures))
    assert isinstance(result, CheckResult)


def test_a_fitted_model_raises(runs):
    with pytest.raises(UserError, match="fitted"):
        run_checks.check_run(runs / "tfidf")
