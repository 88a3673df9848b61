"""Guessing by similarity and language bias are detected where they are planted, and only there."""

from __future__ import annotations

from random import Random

from regard.tasks.recall.similarity import compare_with_nearest, measure_language_bias, mutual_information

PLACES = ["London", "Paris", "Rome", "Oslo"]


def test_guessing_by_similarity_is_detected():
    rng = Random(0)
    answers = [rng.choice(PLACES) for _ in range(200)]
    known = [rng.choice(PLACES) for _ in range(200)]
    assert compare_with_nearest(answers, answers, known)["significant"]
    random = compare_with_nearest(answers, [rng.choice(PLACES) for _ in answers], known)
    assert abs(random["as_nearest"] - random["as_random"]) < 0.15
    assert random["low"] < random["as_random"] < random["high"]


def test_language_bias_is_detected():
    rng = Random(1)
    not_answered = {"a": [False] * 60, "b": [False] * 60}
    unbiased = {language: [rng.choice(PLACES) for _ in range(60)] for language in "ab"}
    assert not measure_language_bias(unbiased, not_answered)["biased"]
    planted = {"a": ["London"] * 60, "b": [rng.choice(PLACES) for _ in range(60)]}
    result = measure_language_bias(planted, not_answered)
    assert result["biased"]
    assert result["answered"] == {"a": 0.0, "b": 0.0}


def test_mutual_information_by_hand():
    assert mutual_information("aabb", "xxyy") == 1.0
    assert mutual_information("aabb", "xyxy") == 0.0
