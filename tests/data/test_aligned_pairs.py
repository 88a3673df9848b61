"""Generated pairs: the target matches the source, and the alignment is correct."""

from __future__ import annotations

import sys

import pytest

from regard.data.synthetic.aligned_pairs import LOCALES, generate_pairs
from regard.errors import UserError

pytest.importorskip("babel")
pytest.importorskip("num2words")


def test_dates_match_their_target_and_are_aligned():
    made = generate_pairs("dates", 300, seed=1)
    assert len({w.source for w in made}) > 250
    for one in made:
        words, parts = one.source.split(), one.target.split()
        assert [len(part) for part in parts] == [4, 1, 2, 1, 2]
        pairs = {target: words[source].strip(".,") for source, target in one.alignment}
        assert set(pairs) == {0, 2, 4}
        assert pairs[0] == parts[0]  # the year, digit by digit
        assert int(pairs[4]) == int(parts[4])
        assert not pairs[2].isdigit() or int(pairs[2]) == int(parts[2])


def test_months_of_all_locales():
    from babel.dates import get_month_names

    names = {
        (month, name.strip(".").lower())
        for place in LOCALES
        for width in ("wide", "abbreviated")
        for month, name in get_month_names(width, "format", place).items()
    }
    for one in generate_pairs("dates", 200):
        source = next(s for s, t in one.alignment if t == 2)
        word = one.source.split()[source].strip(".,").lower()
        month = int(one.target.split()[2])
        assert (month, word) in names or word == str(month), one


def test_numbers_are_aligned_by_word_value():
    made = generate_pairs("numbers", 300, seed=2, source="en", target="fr")
    same = {"two": "deux", "seven": "sept", "thousand": "mille", "twelve": "douze"}
    checked = 0
    for one in made:
        a, b = one.source.split(), one.target.split()
        for source, target in one.alignment:
            if a[source] in same:
                assert b[target] == same[a[source]]
                checked += 1
        assert "and" not in {a[source] for source, _ in one.alignment}
    assert checked > 50


def test_same_seed_gives_the_same_pairs():
    for kind in ("dates", "numbers"):
        assert generate_pairs(kind, 5, seed=3) == generate_pairs(kind, 5, seed=3) != generate_pairs(kind, 5, seed=4)


def test_unknown_kinds_languages_and_packages_are_errors(monkeypatch):
    with pytest.raises(UserError, match="did you mean 'dates'"):
        generate_pairs("date", 1)
    with pytest.raises(UserError, match="at least 1"):
        generate_pairs("dates", 0)
    with pytest.raises(UserError, match="does not know the language 'xx'"):
        generate_pairs("numbers", 1, target="xx")
    monkeypatch.setitem(sys.modules, "babel.dates", None)
    with pytest.raises(UserError, match="pip install Babel"):
        generate_pairs("dates", 1)
