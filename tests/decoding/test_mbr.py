"""The caption that most agree with."""

from __future__ import annotations

import pytest

from regard.decoding.mbr import MinimumBayesRisk, choose_consensus
from regard.errors import UserError

DOG = [[6, 7, 8, 9, 10], [6, 7, 8, 9, 11], [6, 7, 8, 9, 10, 12]]


def test_what_most_say_is_taken():
    odd = [20, 21, 22, 23, 24]
    assert choose_consensus([odd, *DOG], [odd, *DOG]) == 1


def test_it_is_not_the_most_frequent_but_the_one_most_shared():
    """Twice the same stands against five that share their beginning."""
    alone = [30, 31, 32, 33]
    near = [[6, 7, 8, 9, 20 + i] for i in range(5)]
    assert choose_consensus([alone, alone, *near], [alone, near[0]]) == 1


def test_saying_a_word_again_is_no_gain():
    drawn = [[6, 7, 8, 9], [6, 7, 8, 9]]
    assert choose_consensus(drawn, [[6, 6, 6, 6], [6, 7, 8, 10]]) == 1


def test_too_short_is_held_against_a_caption():
    drawn = [[6, 7, 8, 9, 10, 11, 12, 13]] * 4
    assert choose_consensus(drawn, [drawn[0][:4], drawn[0]]) == 1
    assert choose_consensus(drawn, [[], drawn[0][:4]]) == 1


@pytest.mark.parametrize("how", [{"num_samples": 1}, {"temperature": 0}, {"references": 0}])
def test_what_makes_no_consensus(how):
    with pytest.raises(UserError, match="minimum Bayes risk"):
        MinimumBayesRisk(**how)
