"""People are found by name, also when it is nearly right, and strangers are not."""

from __future__ import annotations

import pytest

from regard.tasks.recall.name_lookup import Names
from regard.tasks.recall.synthetic_names import LANGUAGES, invented

INDEX = Names(["Jérôme Inzerillo", "Zdzisław Najder", "John Stephen", "Stephen Carter, Baron Carter of Barnes"])


@pytest.mark.parametrize(
    ("name", "found"),
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
def test_find(name, found):
    assert [person for person, _ in INDEX.meant(name)] == ([] if found is None else [found])


def test_all_who_may_be_meant():
    index = Names(["Anna Smith", "Ánna Smith", "Ann Smith", "Søren Ærø"])
    assert index.meant("Anna Smith") == [("Anna Smith", 1.0)]
    assert index.meant("anna smith") == [("Anna Smith", 1.0), ("Ánna Smith", 1.0)]
    assert index.meant("Annna Smith")[:2] == [
        ("Anna Smith", pytest.approx(8 / 9)),
        ("Ánna Smith", pytest.approx(8 / 9)),
    ]
    assert index.meant("Soren Aero") == [("Søren Ærø", 1.0)]
    assert index.meant("Xu Wei") == []


def test_invented_people_are_nobody():
    first = invented([], 20)
    assert set(first) == set(LANGUAGES)
    known = first["Polish"][:5]
    assert not set(known) & set(invented(known, 20)["Polish"])
    assert all(len(set(names)) == 20 for names in first.values())
