"""Faithfulness of models whose deciding words are known: a true picture is called faithful, a false one is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from regard.inspect import faithfulness, faithfulness_of_maps, rank_correlation

N = 30
DECIDING = [3, 7, 11, 12, 19, 25]
MATTERS = np.zeros(N)
MATTERS[DECIDING] = np.linspace(1.0, 2.0, len(DECIDING))


def predict(kept: Sequence[np.ndarray]) -> np.ndarray:
    """A word adds what it matters to the logit; without any, p is 0.2."""
    logit = np.array([float((MATTERS * row).sum()) for row in kept])
    return 1 / (1 + 4 * np.exp(-logit))


def rows(found) -> dict[str, dict]:
    return {row["measure"]: row for row in found.as_dict()["rows"]}


def test_a_true_picture_is_called_faithful():
    weights = (MATTERS + 0.01) / (MATTERS + 0.01).sum()
    found = faithfulness(predict, weights, range(N), "good", gradient=-MATTERS)
    assert "is a faithful explanation" in found.sentence
    measured = rows(found)
    assert list(measured) == ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]
    whole, none = predict([np.ones(N), np.zeros(N)])
    assert measured["comprehensiveness"]["attention"] == pytest.approx(whole - none)
    assert measured["sufficiency"]["attention"] == pytest.approx(0, abs=1e-9)
    assert measured["leave-one-out"]["attention"] == pytest.approx(1.0)
    assert measured["gradients"]["attention"] == pytest.approx(1.0)
    assert all(row["better_than"] >= 0.95 for row in measured.values())
    assert measured["comprehensiveness"]["random"] < 0.2 * whole
    assert measured["comprehensiveness"]["uniform"] < 0.5 * whole
    assert abs(measured["leave-one-out"]["random"]) < 0.1
    assert measured["leave-one-out"]["uniform"] == 0.0
    assert "p(good)" in measured["comprehensiveness"]["explain"]


def test_a_false_picture_is_no_better_than_chance():
    weights = np.where(MATTERS > 0, 0.001, 1.0)
    found = faithfulness(predict, weights / weights.sum(), range(N), "good", gradient=MATTERS)
    assert found.sentence == "On this input attention is no better than chance as an explanation."


def test_even_attention_explains_nothing():
    found = faithfulness(predict, np.full(N, 1 / N), range(N), "good", gradient=MATTERS)
    measured = rows(found)
    assert measured["leave-one-out"]["attention"] == 0.0
    assert measured["leave-one-out"]["better_than"] < 0.95


def test_whole_words_go_and_tokens_without_one_stay():
    seen: list[np.ndarray] = []

    def watch(kept: Sequence[np.ndarray]) -> np.ndarray:
        seen.extend(kept)
        return np.zeros(len(kept))

    words = [-1, 0, 0, 1, 2, 2, 3, 4, -1]
    faithfulness(watch, np.linspace(0, 1, 9), words, "x")
    for row in seen:
        assert row[0]
        assert row[8]
        assert row[1] == row[2]
        assert row[4] == row[5]
    alone = [row for row in seen if row.sum() == 8 - (not row[1]) - (not row[4])]
    assert alone


def test_several_questions_are_each_their_own():
    other = np.zeros(N)
    other[[0, 1, 2, 28, 29, 14]] = 1.5

    def both(kept: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([predict(kept), np.array([float((other * row).sum()) for row in kept])], 1)

    pictures = [MATTERS + 0.01, other + 0.01]
    one, two = faithfulness_of_maps(both, pictures, range(N), ["a", "b"], gradients=[None, other])
    assert rows(one)["comprehensiveness"]["attention"] == pytest.approx(
        rows(faithfulness(predict, MATTERS + 0.01, range(N), "a"))["comprehensiveness"]["attention"]
    )
    assert rows(two)["comprehensiveness"]["attention"] == pytest.approx(9.0)
    assert "gradients" not in rows(one)
    assert "gradients" in rows(two)
    crossed, _ = faithfulness_of_maps(both, pictures[::-1], range(N), ["a", "b"])
    assert rows(crossed)["comprehensiveness"]["attention"] < 0.1


def test_short_texts_are_not_judged_and_long_ones_are_sampled():
    assert "too few words" in faithfulness(predict, np.ones(2), [0, 1], "x").sentence
    calls: list[int] = []

    def count(kept: Sequence[np.ndarray]) -> np.ndarray:
        calls.append(len(kept))
        return np.zeros(len(kept))

    found = faithfulness(count, np.ones(900), range(900), "x", draws=10, most=20)
    assert sum(calls) == 1 + 2 * (1 + 10 + 4) + 20
    assert "20 of the 900 words" in rows(found)["leave-one-out"]["explain"]


def test_rank_correlation():
    assert rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3])) == pytest.approx(1)
    assert rank_correlation(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(-1)
    assert rank_correlation(np.ones(3), np.array([1.0, 2.0, 3.0])) == 0.0


def test_many_pictures_of_one_question_share_what_was_asked():
    asked: list[int] = []

    def count(kept: Sequence[np.ndarray]) -> np.ndarray:
        asked.append(len({row.tobytes() for row in kept}))
        assert len(kept) == asked[-1]  # none is asked twice
        return predict(kept)[:, None]

    true = MATTERS + 0.01
    pictures = [true, true[::-1].copy(), true]
    one, two, three = faithfulness_of_maps(count, pictures, range(N), ["good"], about=[0, 0, 0], erased=2)
    alone = faithfulness(predict, true, range(N), "good")
    assert rows(one)["comprehensiveness"]["attention"] == rows(alone)["comprehensiveness"]["attention"]
    assert rows(two)["comprehensiveness"]["attention"] < rows(one)["comprehensiveness"]["attention"]
    assert list(rows(three)) == ["leave-one-out"]
    assert rows(three)["leave-one-out"]["attention"] == pytest.approx(1.0)
    assert "all that was measured" in three.sentence
    assert len(asked) == 1


def test_a_prediction_that_hardly_moves_is_told():
    def faint(kept: Sequence[np.ndarray]) -> np.ndarray:
        return 0.5 + 0.001 * predict(kept)

    found = faithfulness(faint, MATTERS + 0.01, range(N), "good")
    assert "faithful explanation" in found.sentence
    assert "there is little to explain" in found.sentence
