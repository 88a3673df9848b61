"""Faithfulness for a model whose deciding words are known: a correct map is called faithful, a wrong one is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from regard.inspect import Faithfulness, faithfulness, faithfulness_of_maps, rank_correlation

N = 30
DECIDING_WORDS = [3, 7, 11, 12, 19, 25]
EFFECT = np.zeros(N)
EFFECT[DECIDING_WORDS] = np.linspace(1.0, 2.0, len(DECIDING_WORDS))


def score(masks: Sequence[np.ndarray]) -> np.ndarray:
    """Each word adds its effect to the logit; without any word, p is 0.2."""
    logit = np.array([float((EFFECT * row).sum()) for row in masks])
    return 1 / (1 + 4 * np.exp(-logit))


def metrics(result: Faithfulness) -> dict[str, dict]:
    return {metric["name"]: metric for metric in result.as_dict()["metrics"]}


def test_a_correct_map_is_faithful():
    weights = (EFFECT + 0.01) / (EFFECT + 0.01).sum()
    result = faithfulness(score, weights, range(N), "good", gradient=-EFFECT)
    assert "is a faithful explanation" in result.verdict
    by_name = metrics(result)
    assert list(by_name) == ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]
    full, empty = score([np.ones(N), np.zeros(N)])
    assert by_name["comprehensiveness"]["attention"] == pytest.approx(full - empty)
    assert by_name["sufficiency"]["attention"] == pytest.approx(0, abs=1e-9)
    assert by_name["leave-one-out"]["attention"] == pytest.approx(1.0)
    assert by_name["gradients"]["attention"] == pytest.approx(1.0)
    assert all(row["better_than"] >= 0.95 for row in by_name.values())
    assert by_name["comprehensiveness"]["random"] < 0.2 * full
    assert by_name["comprehensiveness"]["uniform"] < 0.5 * full
    assert abs(by_name["leave-one-out"]["random"]) < 0.1
    assert by_name["leave-one-out"]["uniform"] == 0.0
    assert "p(good)" in by_name["comprehensiveness"]["description"]


def test_a_wrong_map_is_no_better_than_chance():
    weights = np.where(EFFECT > 0, 0.001, 1.0)
    result = faithfulness(score, weights / weights.sum(), range(N), "good", gradient=EFFECT)
    assert result.verdict == "On this input attention is no better than chance as an explanation."


def test_uniform_attention_explains_nothing():
    result = faithfulness(score, np.full(N, 1 / N), range(N), "good", gradient=EFFECT)
    by_name = metrics(result)
    assert by_name["leave-one-out"]["attention"] == 0.0
    assert by_name["leave-one-out"]["better_than"] < 0.95


def test_words_are_removed_whole_and_special_tokens_never():
    scored: list[np.ndarray] = []

    def record_masks(masks: Sequence[np.ndarray]) -> np.ndarray:
        scored.extend(masks)
        return np.zeros(len(masks))

    words = [-1, 0, 0, 1, 2, 2, 3, 4, -1]
    faithfulness(record_masks, np.linspace(0, 1, 9), words, "x")
    for row in scored:
        assert row[0]
        assert row[8]
        assert row[1] == row[2]
        assert row[4] == row[5]
    alone = [row for row in scored if row.sum() == 8 - (not row[1]) - (not row[4])]
    assert alone


def test_several_targets_are_measured_independently():
    other = np.zeros(N)
    other[[0, 1, 2, 28, 29, 14]] = 1.5

    def both(masks: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([score(masks), np.array([float((other * row).sum()) for row in masks])], 1)

    maps = [EFFECT + 0.01, other + 0.01]
    first, second = faithfulness_of_maps(both, maps, range(N), ["a", "b"], gradients=[None, other])
    assert metrics(first)["comprehensiveness"]["attention"] == pytest.approx(
        metrics(faithfulness(score, EFFECT + 0.01, range(N), "a"))["comprehensiveness"]["attention"]
    )
    assert metrics(second)["comprehensiveness"]["attention"] == pytest.approx(9.0)
    assert "gradients" not in metrics(first)
    assert "gradients" in metrics(second)
    crossed, _ = faithfulness_of_maps(both, maps[::-1], range(N), ["a", "b"])
    assert metrics(crossed)["comprehensiveness"]["attention"] < 0.1


def test_short_texts_are_not_measured_and_long_ones_are_sampled():
    assert "too few words" in faithfulness(score, np.ones(2), [0, 1], "x").verdict
    calls: list[int] = []

    def count(masks: Sequence[np.ndarray]) -> np.ndarray:
        calls.append(len(masks))
        return np.zeros(len(masks))

    result = faithfulness(count, np.ones(900), range(900), "x", num_random=10, max_words=20)
    assert sum(calls) == 1 + 2 * (1 + 10 + 4) + 20
    assert "20 of the 900 words" in metrics(result)["leave-one-out"]["description"]


def test_rank_correlation():
    assert rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3])) == pytest.approx(1)
    assert rank_correlation(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(-1)
    assert rank_correlation(np.ones(3), np.array([1.0, 2.0, 3.0])) == 0.0


def test_maps_of_one_target_share_their_forward_passes():
    num_unique: list[int] = []

    def count(masks: Sequence[np.ndarray]) -> np.ndarray:
        num_unique.append(len({row.tobytes() for row in masks}))
        assert len(masks) == num_unique[-1]  # no mask is scored twice
        return score(masks)[:, None]

    correct = EFFECT + 0.01
    maps = [correct, correct[::-1].copy(), correct]
    first, second, third = faithfulness_of_maps(count, maps, range(N), ["good"], target_ids=[0, 0, 0], num_erased=2)
    alone = faithfulness(score, correct, range(N), "good")
    assert metrics(first)["comprehensiveness"]["attention"] == metrics(alone)["comprehensiveness"]["attention"]
    assert metrics(second)["comprehensiveness"]["attention"] < metrics(first)["comprehensiveness"]["attention"]
    assert list(metrics(third)) == ["leave-one-out"]
    assert metrics(third)["leave-one-out"]["attention"] == pytest.approx(1.0)
    assert "all that was measured" in third.verdict
    assert len(num_unique) == 1


def test_a_prediction_that_hardly_changes_is_reported():
    def nearly_constant(masks: Sequence[np.ndarray]) -> np.ndarray:
        return 0.5 + 0.001 * score(masks)

    result = faithfulness(nearly_constant, EFFECT + 0.01, range(N), "good")
    assert "faithful explanation" in result.verdict
    assert "there is little to explain" in result.verdict
