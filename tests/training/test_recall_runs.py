"""Recall learns facts of people who were never asked about, knows strangers, and comes back as it was saved."""

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
WAYS = ["{n} was born in {p} .", "Born in {p}, {l} is a baker .", "{n} (born in {p}) lives in {q} ."]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """48 people, half of them asked about in asked.tsv, the others in others.tsv."""
    folder, draw = tmp_path_factory.mktemp("facts"), Random(0)
    people = [(f"{a} {b}", draw.choice(PLACES)) for a in FIRST for b in LAST]
    draw.shuffle(people)
    lines = [
        f"{n}. " + draw.choice(WAYS).format(n=n, l=n.split()[1], p=p, q=draw.choice(["Vienna", "Bonn"]))
        for n, p in people
    ]
    (folder / "facts.txt").write_text("\n".join(lines) + "\n")
    for name, rows in (("asked", people[::2]), ("others", people[1::2])):
        (folder / f"{name}.tsv").write_text("".join(f"Where was {n} born?\t{p}\n" for n, p in rows))
    return folder


def trained(files, out, book, **how):
    settings = {
        "closed": {"book": "closed", "model": {"dim": 64, "layers": 2, "table": 2048}, "tokenizer": {"vocab_size": 400}},
        "open": {"book": "open", "model": {"dim": 48, "layers": 1, "hidden": 64}, "tokenizer": {"vocab_size": 100}},
    }[book]
    rate = {"closed": {"optimizer": "muon", "lr": 0.01, "decay": "linear"}, "open": {"lr": 0.01}}[book]
    settings |= {"train": {**rate, "evaluate_every": 1000}, "data": {"batch_tokens": 1024}}
    data = [files / "facts.txt", files / "asked.tsv"]
    return regard.train("recall", data, settings=settings, out=out, **QUIET, **how)


@pytest.fixture(scope="module")
def closed(files, tmp_path_factory):
    return trained(files, tmp_path_factory.mktemp("closed") / "run", "closed", epochs=30)


@pytest.fixture(scope="module")
def opened(files, tmp_path_factory):
    return trained(files, tmp_path_factory.mktemp("open") / "run", "open", steps=60)


def test_facts_of_people_never_asked_about(closed, files):
    assert closed.evaluate(files / "others.tsv")["exact"] > 0.6  # by chance a sixth


def test_the_open_book_reads(opened, files):
    found = opened.evaluate(files / "others.tsv")
    assert found["exact"] > 0.8
    assert found["strangers"] == 0.0
    said = opened.ask("Where was Olga Brandt born?", abstain=1.0)
    assert said.answer is not None
    assert said.answer in str(said.sentence)
    assert max(said.words, key=lambda pair: pair[1])[0] in str(said.sentence)


def test_no_answer_of_the_people_set_aside_is_seen(closed, files):
    asked = read_questions(files / "asked.tsv", closed.read)
    aside = set(closed.aside.names)
    assert aside
    assert aside | set(closed.asked) == set(asked.names)
    assert not aside & set(closed.asked)


def test_strangers_are_less_sure_than_acquaintances(closed):
    known = [a.confidence for a in closed.ask([f"Where was {n} born?" for n in closed.read.sentences_of], near=0)]
    strange = [a.confidence for a in closed.ask([f"Where was {n} born?" for n in closed.strangers(40, 5)], near=0)]
    assert sum(known) / len(known) > sum(strange) / len(strange)


def test_it_comes_back_as_it_was_saved(closed, tmp_path):
    closed.save_pretrained(tmp_path / "copy")
    again = regard.Run.load(tmp_path / "copy")
    before, after = (run.ask("Where was Olga Brandt born?", near=2) for run in (closed, again))
    assert after.guess == before.guess
    assert after.confidence == pytest.approx(before.confidence, abs=1e-5)
    assert [one["name"] for one in after.near] == [one["name"] for one in before.near]


def test_a_second_run_is_the_same(files, tmp_path):
    for name in ("a", "b"):
        trained(files, tmp_path / name, "closed", steps=3)
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()


def test_a_resumed_run_keeps_its_questions(files, tmp_path):
    run = trained(files, tmp_path / "a", "closed", steps=2)
    assert regard.train("recall", resume=True, out=tmp_path / "a", **QUIET).config["patterns"] == run.config["patterns"]


def test_a_reader_that_knows_too_much_is_refused(files, tmp_path, opened):
    settings = {"data": {"reader": str(opened.folder)}}
    with pytest.raises(UserError, match="was taught the answers"):
        regard.train("recall", [files / "facts.txt", files / "asked.tsv"], seed=3, steps=1, settings=settings, **QUIET)


def test_measures_of_likeness_and_bias(closed):
    found = closed.likeness(30)
    assert 0 <= found["as_nearest"] <= 1
    assert found["strangers"] == 30
    assert closed.bias(3)["names"] == 30
    crossed = closed.crossed(2, strangers=20)
    assert set(crossed["strangers"]) == {"recombined", "invented"}
