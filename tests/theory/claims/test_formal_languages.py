"""Texts of formal languages match their labels."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import UserError
from regard.theory.claims.formal_languages import LANGUAGES, generate, is_member, num_symbols, valid_lengths


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("max_length", [4, 13, 30])
def test_labels_are_correct_and_balanced(name, max_length):
    length = valid_lengths(name, max_length)[-1]
    ids, labels = generate(name, length, 200, seed=1)
    assert ids.shape == (200, length)
    assert labels.sum() == 100
    assert ids.min() >= 1
    assert ids.max() <= num_symbols(name)
    assert [is_member(name, text) for text in ids] == (labels == 1).tolist()


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_same_seed_gives_the_same_texts(name):
    length = valid_lengths(name, 12)[-1]
    a, b, c = (generate(name, length, 50, seed)[0] for seed in (3, 3, 4))
    assert (a == b).all()
    assert name in ("anbn", "periodic") or not (a == c).all()


def test_counting_symbols_is_not_enough():
    """Many unbalanced texts have as many opening as closing brackets."""
    ids, labels = generate("dyck-2", 20, 400, seed=0)
    num_opening = ((ids - 1) % 2 == 0).sum(1)
    assert np.mean(num_opening[labels == 0] == 10) > 0.5


def test_unknown_names_and_lengths_raise():
    with pytest.raises(UserError, match="dyck-1"):
        generate("dyck", 4, 2, 0)
    with pytest.raises(UserError, match="length 5"):
        generate("anbn", 5, 2, 0)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("dyck-1", [1, 1, 2, 2, 1, 2], True),
        ("dyck-1", [2, 1], False),
        ("dyck-2", [1, 3, 4, 2], True),
        ("dyck-2", [1, 3, 2, 4], False),
        ("anbn", [1, 1, 2, 2], True),
        ("anbn", [1, 2, 1, 2], False),
        ("periodic", [1, 1, 2, 1, 1, 2], True),
        ("periodic", [1, 1, 2, 1, 2, 1], False),
        ("parity", [2, 1, 2, 2], True),
        ("majority", [2, 2, 1], True),
    ],
)
def test_definitions(name, text, expected):
    assert is_member(name, np.array(text)) is expected
