"""`regard verify RUN`: a sound run passes what applies to it, and a broken model is told."""

from __future__ import annotations

import json

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
    folder = tmp_path_factory.mktemp("own")
    quiet = {"progress": False}
    reviews = generate_reviews(80, 0)
    (folder / "corpus.txt").write_text("\n".join(r.text for r in reviews) + "\n")
    sizes = {"dim": 16, "layers": 2, "heads": 2, "positions": "rotary"}
    settings = {"model": sizes, "data": {"block": 24}, "tokenizer": {"vocab": 300}}
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
def test_a_sound_translator(runs, name):
    rows = run_checks.check_run(runs / name)
    verdicts = found(rows)
    assert {"no-leak", "padding", "batch", "beam-1", "saved"} <= set(verdicts)
    assert ("kv-cache" if name == "translator" else "steps") in verdicts
    bad = [row.as_dict() for row in rows if row.verdict != "holds" and row.id != "compiled"]
    assert not bad


def found(rows) -> dict[str, str]:
    return {row.id: row.verdict for row in rows}


def test_a_sound_language_model(runs):
    rows = run_checks.check_run(runs / "gpt")
    verdicts = found(rows)
    assert {"no-leak", "padding", "batch", "kv-cache", "greedy", "permutation", "shift", "saved", "compiled"} <= set(
        verdicts
    )
    assert "merged" not in verdicts  # rotary positions cannot be merged
    assert set(verdicts.values()) == {"holds"}, [row.as_dict() for row in rows if row.verdict != "holds"]


def test_a_sound_classifier(runs):
    rows = run_checks.check_run(runs / "encoder")
    verdicts = found(rows)
    assert {"padding", "batch", "permutation", "merged", "saved"} <= set(verdicts)
    assert "no-leak" not in verdicts
    assert {v for k, v in verdicts.items() if k != "compiled"} == {"holds"}, [row.as_dict() for row in rows]


def test_a_leak_is_told(runs, monkeypatch):
    s = run_checks.subject(regard.load(str(runs / "gpt")), 0)
    assert run_checks.no_leak(s).verdict == "holds"
    monkeypatch.setattr(Mask, "is_plain_causal", lambda self, q_pos, k_pos: False)
    monkeypatch.setattr(Mask, "allowed", lambda self, q_pos, k_pos, device: None)
    assert run_checks.no_leak(s).verdict == "fails"


def test_padding_that_is_seen_is_told(runs):
    s = run_checks.subject(regard.load(str(runs / "encoder")), 0)
    assert run_checks.padding(s).verdict == "holds"
    blind = run_checks.Subject(
        s.model, s.ids, s.mask, lambda m, ids, mask: s.logits(m, ids, torch.ones_like(mask)), *_rest(s)
    )
    assert run_checks.padding(blind).verdict == "fails"


def test_batch_mates_that_are_seen_are_told(runs):
    s = run_checks.subject(regard.load(str(runs / "encoder")), 0)

    def mixed(m, ids, mask):
        out = s.logits(m, ids, mask)
        return out + out.mean(0, keepdim=True)

    assert run_checks.batch(run_checks.Subject(s.model, s.ids, s.mask, mixed, *_rest(s))).verdict == "fails"


def test_a_shift_that_counts_is_told(runs):
    s = run_checks.subject(regard.load(str(runs / "gpt")), 0)
    assert run_checks.shift(s).verdict == "holds"
    with torch.no_grad():
        kept = s.model.embed.weight.clone()
    s.model.positions = regard.attention.positions.build("sinusoidal", 16, 2)
    assert run_checks.shift(s).verdict == "fails"
    assert torch.equal(kept, s.model.embed.weight)


def test_what_cannot_be_compiled_is_undecided(runs, monkeypatch):
    s = run_checks.subject(regard.load(str(runs / "gpt")), 0)

    def refuse(*args, **kwargs):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", refuse)
    found_ = run_checks.compiled(s)
    assert found_.verdict == "undecided"
    assert "no compiler" in json.dumps(dict(found_.figures))
    assert isinstance(found_, CheckResult)


def test_a_fitted_model_is_refused(runs):
    with pytest.raises(UserError, match="fitted"):
        run_checks.check_run(runs / "tfidf")


def _rest(s):
    return s.task, s.causal, s.run
