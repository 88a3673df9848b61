"""Paraphrases of facts start with the name, and contain no answers of other people."""

from __future__ import annotations

from random import Random

import pytest

from regard.data import tokenizer
from regard.data.facts import Facts, Questions
from regard.data.paraphrase import (
    ParaphraseMix,
    Paraphraser,
    build_prompts,
    encode_names,
    find_named_spans,
    generate_unknown_names,
)
from regard.data.qa_passages import build_passage, find_answer_spans
from regard.data.tokenizer import BOS, EOS, MASK, SEP, UNK
from regard.errors import UserError

PATTERN = ("Where was", "born?")
NAMES = ["Ada Lovelace", "Nabil Kanso", "Humphrey Hopkin"]
TEXTS = ["Ada Lovelace was born in London .", "He is a painter born in Beirut, Lebanon .", "Hopkin was born at York ."]
BOOK = Facts(NAMES, TEXTS, [], "")
ASKED = Questions([PATTERN], ["Ada Lovelace"], ["London"])


@pytest.fixture(scope="module")
def words():
    return tokenizer.train_tokenizer([f" {n}. {t}" for n, t in zip(NAMES, TEXTS, strict=True)], "bpe", 400)


def test_every_example_starts_with_a_name(words):
    items = Paraphraser(BOOK, ASKED, words, ParaphraseMix(unknown_names=2.0), 0).generate_epoch(0)
    starts = [(BOS, *ids, SEP) for ids in encode_names(NAMES, words).values()]
    known = [item for item in items if any(tuple(item.ids[: len(s)]) == s for s in starts)]
    strange = [item for item in items if item not in known]
    assert len(known) == 3 * (1 + 1 + 6) + 1
    assert strange
    assert all(item.ids[-2:] == [SEP, UNK] and item.first == len(item.ids) - 1 for item in strange)


def test_only_training_questions_are_examples(words):
    items = Paraphraser(BOOK, ASKED, words, ParaphraseMix(), 0).generate_epoch(0)
    (start,) = build_prompts([PATTERN], ["Ada Lovelace"], words, "name")
    asked = [item for item in items if words.decode(item.ids).find("Where was") >= 0]
    assert [item.ids[: item.first] for item in asked] == [start]
    assert words.decode(asked[0].ids[asked[0].first :]) == " London"


def test_a_cloze_is_a_part_of_the_sentence(words):
    items = Paraphraser(BOOK, ASKED, words, ParaphraseMix(clozes=40, word_dropout=0.0), 3).generate_epoch(1)
    whole = {tuple(item.ids): item for item in items}
    clozes = [item for item in whole.values() if MASK in item.ids and "Where" not in words.decode(item.ids)]
    assert len(clozes) > 20
    for item in clozes:
        body, span = item.ids[item.ids.index(SEP) + 1 : item.first - 1], item.ids[item.first : -1]
        said = [id for part in body for id in (span if part == MASK else [part])]
        assert item.ids[-1] == EOS
        assert any(words.decode(said) in f" {text}" for text in TEXTS), words.decode(said)


def test_same_epoch_gives_the_same_examples(words):
    first, again = (Paraphraser(BOOK, ASKED, words, ParaphraseMix(), 5) for _ in range(2))
    assert first.generate_epoch(2) == again.generate_epoch(2)
    assert first.generate_epoch(2) != first.generate_epoch(3)


def test_named_spans_exclude_the_person():
    words = ["Kanso", "was", "born", "in", "New", "York", ",", "the", "son", "of", "the", "Duke", "of", "York"]
    assert [" ".join(words[a:b]) for a, b in find_named_spans(words, {"Nabil", "Kanso"})] == [
        "New York",
        "Duke of York",
    ]


def test_unknown_names_are_not_known():
    made = generate_unknown_names(NAMES, 5, Random(0))
    assert made
    assert not set(made) & set(NAMES)


def test_unknown_prompt_format_is_an_error():
    with pytest.raises(UserError, match=r"mix\.prompt_format"):
        ParaphraseMix(prompt_format="sideways")


def test_passage_has_the_answer_span():
    words = tokenizer.train_tokenizer(TEXTS, "words", 50)
    made = build_passage(PATTERN, "Nabil Kanso", TEXTS[1], words, "Beirut")
    ((first, last),) = made.spans
    assert made.text(first, last) == "Beirut"
    assert build_passage(PATTERN, "Nabil Kanso", TEXTS[1], words, "Paris").spans == [(0, 0)]
    assert find_answer_spans(["in", " New", " York", ",", " New", " York"], ["New", " York"]) == [(1, 2), (4, 5)]
    own = build_passage(PATTERN, "Humphrey Hopkin", TEXTS[2], words)
    assert own.in_name[own.start] == 1
    assert own.in_name.sum() == 1
