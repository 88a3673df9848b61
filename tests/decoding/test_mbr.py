"""Minimum Bayes risk chooses the caption that agrees most with the samples."""

from __future__ import annotations

import pytest

from regard.decoding.mbr import MinimumBayesRisk, choose_consensus
from regard.errors import UserError

DOG = [[6, 7, 8, 9, 10], [6, 7, 8, 9, 11], [6, 7, 8, 9, 10, 12]]


def test_the_majority_caption_is_chosen():
    odd = [20, 21, 22, 23, 24]
    assert choose_consensus([odd, *DOG], [odd, *DOG]) == 1


def test_shared_ngrams_beat_frequency():
    """Twice the same stands against five that share their beginning."""
    alone = [30, 31, 32, 33]
    near = [[6, 7, 8, 9, 20 + i] for i in range(5)]
    assert choose_consensus([alone, alone, *near], [alone, near[0]]) == 1


def test_repeated_words_do_not_help():
    drawn = [[6, 7, 8, 9], [6, 7, 8, 9]]
    assert choose_consensus(drawn, [[6, 6, 6, 6], [6, 7, 8, 10]]) == 1


def test_brevity_penalty():
    drawn = [[6, 7, 8, 9, 10, 11, 12, 13]] * 4
    assert choose_consensus(drawn, [drawn[0][:4], drawn[0]]) == 1
    assert choose_consensus(drawn, [[], drawn[0][:4]]) == 1


@pytest.mark.parametrize("how", [{"num_samples": 1}, {"temperature": 0}, {"references": 0}])
def test_invalid_mbr_options(how):
    with pytest.raises(UserError, match="minimum Bayes risk"):
        MinimumBayesRisk(**how)
