"""Generated contexts have the documented properties."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from regard.data.sentence_split import split_sentences
from regard.data.synthetic import contexts
from regard.errors import UserError


def test_the_same_arguments_give_the_same_texts():
    assert contexts.generate_contexts(30, 5) == contexts.generate_contexts(30, 5)
    assert contexts.generate_contexts(30, 5) != contexts.generate_contexts(30, 6)


@pytest.mark.parametrize("naming", contexts.ORDERS)
def test_label_is_the_color_of_the_named_object(naming: str):
    for found in contexts.generate_contexts(
        200, 0, num_objects=20, list_length=(4, 8), num_colors=4, question=naming, fillers=(0, 3)
    ):
        sentences = [found.text[start:end] for start, end in split_sentences(found.text)]
        (named,) = {t for t in contexts.OBJECTS for s in sentences if re.search(rf"(the|of the) {t}\.", s)}
        assert f"a {found.label} {named}" in sentences[found.sentence]
        ((start, end),) = found.evidence
        assert found.text[start:end] == f"{found.label} {named}"
        asked = next(i for i, s in enumerate(sentences) if s.endswith(f"the {named}."))
        assert naming == "either" or (asked < found.sentence) == (naming == "before")


def test_single_words_do_not_predict_the_label():
    """Every colour stands equally often in every list, and labels are in equal parts."""
    found = contexts.generate_contexts(400, 1, list_length=(4, 8), num_colors=4)
    assert set(Counter(c.label for c in found).values()) == {100}
    for c in found:
        counts = Counter(word for word in re.findall(r"\w+", c.text) if word in contexts.COLORS[:4])
        assert len(counts) == 4
        assert len(set(counts.values())) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"question": "befor"}, "did you mean 'before'"),
        ({"num_colors": 1}, "cannot list"),
        ({"num_objects": 99}, "cannot list"),
        ({"list_length": (3, 3), "num_colors": 2}, "is a multiple of 2"),
        ({"fillers": (0, 99)}, "fillers"),
    ],
)
def test_invalid_options_are_errors(more: dict, said: str):
    with pytest.raises(UserError, match=said):
        contexts.generate_contexts(3, 0, **more)


def test_unbalanced_texts_have_lists_of_any_length():
    found = contexts.generate_contexts(400, 2, list_length=(1, 12), balanced=False)
    assert set(Counter(c.label for c in found).values()) == {100}
    sizes = Counter()
    for c in found:
        pairs = re.findall(rf"a ({'|'.join(contexts.COLORS)}) (\w+)", c.text)
        sizes[len(pairs)] += 1
        named = re.search(r"the (\w+)\.", c.text)
        assert named is not None
        assert {thing: colour for colour, thing in pairs}[named[1]] == c.label
        assert c.text[slice(*c.evidence[0])] == f"{c.label} {named[1]}"
    assert set(sizes) == set(range(1, 13))
    alone = [c for c in found if c.text.count(" a ") == 1]
    assert alone
    assert " and " not in alone[0].text


def test_default_texts_have_twelve_objects_in_four_colors():
    for c in contexts.generate_contexts(20, 3):
        counts = Counter(re.findall(rf"a ({'|'.join(contexts.COLORS)}) \w+", c.text))
        assert sorted(counts.values()) == [3, 3, 3, 3]
