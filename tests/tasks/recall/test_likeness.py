"""Guessing by likeness and bias by language: found where they are planted, not where they are not."""

from __future__ import annotations

from random import Random

from regard.tasks.recall.similarity import by_language, information, same_as_nearest

PLACES = ["London", "Paris", "Rome", "Oslo"]


def test_likeness_is_found_where_it_is():
    draw = Random(0)
    said = [draw.choice(PLACES) for _ in range(200)]
    known = [draw.choice(PLACES) for _ in range(200)]
    assert same_as_nearest(said, said, known)["holds"]
    by_chance = same_as_nearest(said, [draw.choice(PLACES) for _ in said], known)
    assert abs(by_chance["as_nearest"] - by_chance["as_random"]) < 0.15
    assert by_chance["low"] < by_chance["as_random"] < by_chance["high"]


def test_bias_is_found_where_it_is():
    draw = Random(1)
    silent = {"a": [False] * 60, "b": [False] * 60}
    plain = {language: [draw.choice(PLACES) for _ in range(60)] for language in "ab"}
    assert not by_language(plain, silent)["biased"]
    planted = {"a": ["London"] * 60, "b": [draw.choice(PLACES) for _ in range(60)]}
    found = by_language(planted, silent)
    assert found["biased"]
    assert found["answered"] == {"a": 0.0, "b": 0.0}


def test_information_by_hand():
    assert information("aabb", "xxyy") == 1.0
    assert information("aabb", "xyxy") == 0.0
