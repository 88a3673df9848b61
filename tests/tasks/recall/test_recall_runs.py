"""Recall runs answer about people without training questions, are less confident about unknown names, and reload."""

from __future__ import annotations

from random import Random

import pytest

import regard
from regard.data.facts import read_questions
from regard.errors import UserError

QUIET = {"progress": False}
PLACES = ["London", "Paris", "Rome", "Oslo", "Lima", "Cairo"]
FIRST = ["Olga", "Ivo", "Ruth", "Hugo", "Lena", "Emil", "Nora", "Otto"]
LAST = ["Brandt", "Costa", "Dunn", "Ekberg", "Farago", "Gunn"]
SENTENCES = ["{n} was born in {p} .", "Born in {p}, {l} is a baker .", "{n} (born in {p}) lives in {q} ."]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """48 people; asked.tsv has questions about half of them, others.tsv about the others."""
    folder, rng = tmp_path_factory.mktemp("facts"), Random(0)
    people = [(f"{a} {b}", rng.choice(PLACES)) for a in FIRST for b in LAST]
    rng.shuffle(people)
    lines = [
        f"{n}. " + rng.choice(SENTENCES).format(n=n, l=n.split()[1], p=p, q=rng.choice(["Vienna", "Bonn"]))
        for n, p in people
    ]
    (folder / "facts.txt").write_text("\n".join(lines) + "\n")
    for name, rows in (("asked", people[::2]), ("others", people[1::2])):
        (folder / f"{name}.tsv").write_text("".join(f"Where was {n} born?\t{p}\n" for n, p in rows))
    return folder


def train_run(files, out, book, **options):
    settings = {
        "closed": {
            "book": "closed",
            "model": {"dim": 64, "layers": 2, "table_size": 2048},
            "tokenizer": {"vocab_size": 400},
        },
        "open": {"book": "open", "model": {"dim": 48, "layers": 1, "hidden": 64}, "tokenizer": {"vocab_size": 100}},
    }[book]
    optimizer = {"closed": {"optimizer": "muon", "lr": 0.01, "decay": "linear"}, "open": {"lr": 0.01}}[book]
    settings |= {"train": {**optimizer, "evaluate_every": 1000}, "data": {"batch_tokens": 1024}}
    data = [files / "facts.txt", files / "asked.tsv"]
    return regard.train("recall", data, settings=settings, out=out, **QUIET, **options)


@pytest.fixture(scope="module")
def closed(files, tmp_path_factory):
    return train_run(files, tmp_path_factory.mktemp("closed") / "run", "closed", epochs=30)


@pytest.fixture(scope="module")
def opened(files, tmp_path_factory):
    return train_run(files, tmp_path_factory.mktemp("open") / "run", "open", steps=60)


def test_answers_about_people_without_training_questions(closed, files):
    assert closed.evaluate(files / "others.tsv")["exact"] > 0.6  # random: 1/6


def test_open_book_extracts_answers(opened, files):
    metrics = opened.evaluate(files / "others.tsv")
    assert metrics["exact"] > 0.8
    assert metrics["unknown_answered"] == 0.0
    answer = opened.ask("Where was Olga Brandt born?", abstain=1.0)
    assert answer.answer is not None
    assert answer.answer in str(answer.sentence)
    assert max(answer.word_weights, key=lambda pair: pair[1])[0] in str(answer.sentence)


def test_answers_of_held_out_people_are_not_in_training(closed, files):
    questions = read_questions(files / "asked.tsv", closed.facts)
    held_out = set(closed.held_out.names)
    assert held_out
    assert held_out | set(closed.train_names) == set(questions.names)
    assert not held_out & set(closed.train_names)


def test_unknown_names_have_lower_confidence(closed):
    known, unknown = (
        [answer.confidence for answer in closed.ask([f"Where was {name} born?" for name in names], nearest=0)]
        for names in (closed.facts.sentences_of, closed.unknown_names(40, 5))
    )
    assert sum(known) / len(known) > sum(unknown) / len(unknown)


def test_saved_and_loaded_run_gives_the_same_answers(closed, tmp_path):
    closed.save_pretrained(tmp_path / "copy")
    loaded = regard.Run.load(tmp_path / "copy")
    before, after = (run.ask("Where was Olga Brandt born?", nearest=2) for run in (closed, loaded))
    assert after.guess == before.guess
    assert after.confidence == pytest.approx(before.confidence, abs=1e-5)
    assert [row["name"] for row in after.nearest] == [row["name"] for row in before.nearest]


def test_same_seed_gives_the_same_weights(files, tmp_path):
    for name in ("a", "b"):
        train_run(files, tmp_path / name, "closed", steps=3)
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()


def test_resumed_run_has_the_same_patterns(files, tmp_path):
    run = train_run(files, tmp_path / "a", "closed", steps=2)
    assert regard.train("recall", resume=True, out=tmp_path / "a", **QUIET).config["patterns"] == run.config["patterns"]


def test_reader_trained_on_held_out_answers_is_an_error(files, tmp_path, opened):
    settings = {"data": {"reader": str(opened.folder)}}
    with pytest.raises(UserError, match="was trained on the answers"):
        regard.train("recall", [files / "facts.txt", files / "asked.tsv"], seed=3, steps=1, settings=settings, **QUIET)


def test_similarity_bias_and_cross_validation(closed):
    similarity = closed.measure_similarity(30)
    assert 0 <= similarity["as_nearest"] <= 1
    assert similarity["names"] == 30
    assert closed.measure_bias(3)["names"] == 30
    metrics = closed.cross_validate(2, num_unknown=20)
    assert set(metrics["unknown_answered"]) == {"recombined", "invented"}
