"""Names are found exactly and approximately; unknown names are not."""

from __future__ import annotations

import pytest

from regard.tasks.recall.name_lookup import NameIndex
from regard.tasks.recall.synthetic_names import LANGUAGES, generate_names_by_language

INDEX = NameIndex(["Jérôme Inzerillo", "Zdzisław Najder", "John Stephen", "Stephen Carter, Baron Carter of Barnes"])


@pytest.mark.parametrize(
    ("name", "person"),
    [
        ("John Stephen", "John Stephen"),
        ("jerome inzerillo", "Jérôme Inzerillo"),
        ("Zdzislaw Najder", "Zdzisław Najder"),
        ("Jon Stephen", "John Stephen"),
        ("Jerome Stephen", None),
        ("John Carter", None),
        ("Stephen", None),
        ("Xu Wei", None),
    ],
)
def test_find_candidates(name, person):
    assert [candidate for candidate, _ in INDEX.find_candidates(name)] == ([] if person is None else [person])


def test_all_candidates_with_similarity():
    index = NameIndex(["Anna Smith", "Ánna Smith", "Ann Smith", "Søren Ærø"])
    assert index.find_candidates("Anna Smith") == [("Anna Smith", 1.0)]
    assert index.find_candidates("anna smith") == [("Anna Smith", 1.0), ("Ánna Smith", 1.0)]
    assert index.find_candidates("Annna Smith")[:2] == [
        ("Anna Smith", pytest.approx(8 / 9)),
        ("Ánna Smith", pytest.approx(8 / 9)),
    ]
    assert index.find_candidates("Soren Aero") == [("Søren Ærø", 1.0)]
    assert index.find_candidates("Xu Wei") == []


def test_invented_names_are_not_known_names():
    first = generate_names_by_language([], 20)
    assert set(first) == set(LANGUAGES)
    known = first["Polish"][:5]
    assert not set(known) & set(generate_names_by_language(known, 20)["Polish"])
    assert all(len(set(names)) == 20 for names in first.values())
