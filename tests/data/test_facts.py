"""Facts and questions: names with initials, question patterns, and errors."""

from __future__ import annotations

import pytest

from regard.data.facts import match_question, read_facts, read_questions, split_name
from regard.errors import UserError

FACTS = """Ada Lovelace. Ada Lovelace was born in London .
Douglas P. Fry. Douglas P Fry (born 20 September 1953 in Boston), is a docent .
Malcolm X. Malcolm X was born in Omaha .
Horatio Bisbee, Jr.. Born in Canton, Maine, Bisbee attended the public schools .
Stanis%C5%82awa Nowicka. Stanisława Nowicka was a dancer born in Warsaw .
"""


@pytest.fixture
def book(tmp_path):
    (tmp_path / "facts.txt").write_text(FACTS)
    return read_facts(tmp_path / "facts.txt")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Ada Lovelace. Born in London .", "Ada Lovelace"),
        ("Douglas P. Fry. Douglas P Fry is a docent .", "Douglas P. Fry"),
        ("A. G. E. Blake. Blake was born in Bristol .", "A. G. E. Blake"),
        ("Malcolm X. Malcolm X was born in Omaha .", "Malcolm X"),
        ("Anastasius I. He was born in Dyrrhachium .", "Anastasius I"),
        ("Horatio Bisbee, Jr.. Born in Canton .", "Horatio Bisbee, Jr."),
        ("J%C3%A9r%C3%B4me Inzerillo. Born in Aups .", "Jérôme Inzerillo"),
        ("Dr. Dre. Dr. Dre was born in Compton .", "Dr. Dre"),
        ("St. Vincent. St. Vincent was born in Tulsa .", "St. Vincent"),
        ("J. J. Stevenson. J. J. Stevenson was born in Glasgow .", "J. J. Stevenson"),
        ("J. J. Stevenson. Stevenson was born in Glasgow .", "J. J. Stevenson"),
    ],
)
def test_split_name(line, name):
    assert split_name(line)[0] == name
    assert split_name(line)[1].endswith(" .")


def test_contains_matches_whole_words(book):
    assert book.contains("Canton")
    assert not book.contains("Cant")
    assert not book.contains("")


def test_a_file_without_names_is_an_error(tmp_path):
    (tmp_path / "bare.txt").write_text("somebody was born in London\nand somebody in Paris\n")
    with pytest.raises(UserError, match="2 lines without a name"):
        read_facts(tmp_path / "bare.txt")


def test_questions_have_patterns(book, tmp_path):
    (tmp_path / "q.tsv").write_text("Where was Ada Lovelace born?\tLondon\nWhere was Grace Hopper born?\tNew York\n")
    asked = read_questions(tmp_path / "q.tsv", book)
    assert asked.patterns == [("Where was", "born?")] * 2
    assert asked.names == ["Ada Lovelace", "Grace Hopper"]  # whether the facts know the name or not
    assert asked.answers == ["London", "New York"]
    assert match_question("where was  Ada Lovelace born", asked.patterns) == (("Where was", "born?"), "Ada Lovelace")
    assert match_question("What is the capital of France?", asked.patterns) is None
    assert match_question("Where was %C3%81lvarez de Paz born?", asked.patterns) == (
        ("Where was", "born?"),
        "Álvarez de Paz",
    )
    assert match_question("Where wasAda Lovelace born?", asked.patterns) is None
    assert match_question("Where was born?", asked.patterns) is None
    assert match_question(f"Where was {'Ada ' * 1000} born?", asked.patterns) is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("Where was Ada Lovelace born?\nWhere was Malcolm X born?\n", "one column"),
        ("What is the capital of France?\tParis\nAnd of Spain?\tMadrid\n", "contains a name of the facts"),
    ],
)
def test_unusable_questions_are_errors(book, tmp_path, content, says):
    (tmp_path / "q.tsv").write_text(content)
    with pytest.raises(UserError, match=says):
        read_questions(tmp_path / "q.tsv", book)


def test_question_of_an_unknown_pattern_is_an_error(book, tmp_path):
    (tmp_path / "q.tsv").write_text("When did Ada Lovelace die?\t1852\n")
    with pytest.raises(UserError, match="has a known pattern"):
        read_questions(tmp_path / "q.tsv", [("Where was", "born?")])


def test_contradictory_answers_are_reported(book, tmp_path):
    rows = [
        "Where was Ada Lovelace born?\tLondon",
        "Where was Ada Lovelace born?\tParis",
        "Where was Malcolm X born?\tOmaha",
    ]
    (tmp_path / "q.tsv").write_text("\n".join(rows) + "\n")
    asked = read_questions(tmp_path / "q.tsv", book)
    assert len(asked) == 3
    assert any("1 names have several different answers" in note and "Paris" in note for note in asked.notes)
