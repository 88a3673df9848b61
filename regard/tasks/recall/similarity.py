"""Two questions about what a closed-book model says of people it has never met.

Does it answer as for the nearest known name? For each stranger: is what it says of him what it says of the nearest
known name in its own representation? Against the same with a known name drawn by chance.

Do its answers hang on the language that a name comes from? The mutual information of language and answer in bits,
against the same with the languages shuffled among the names; the share of names that get an answer at all, for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np


def same_as_nearest(
    said: Sequence[str], nearest: Sequence[str], known: Sequence[str], *, seed: int = 0, rounds: int = 200
) -> dict[str, Any]:
    """`said` of strangers, `nearest`: what is said of the nearest known name of each, `known`: what is said of known
    names, from which random neighbours are drawn. With 95 % intervals, by drawing strangers anew."""
    draw = np.random.default_rng(seed)
    a, b, others = (np.array(list(part), dtype=object) for part in (said, nearest, known))
    same = (a == b).astype(float)
    by_chance = np.mean([(a == draw.choice(others, len(a))).mean() for _ in range(rounds)])
    means = [same[draw.integers(0, len(same), len(same))].mean() for _ in range(1000)]
    low, high = np.quantile(means, [0.025, 0.975])
    return {
        "strangers": len(a),
        "as_nearest": float(same.mean()),
        "low": float(low),
        "high": float(high),
        "as_random": float(by_chance),
        "holds": bool(low > by_chance),
    }


def by_language(
    said: Mapping[str, Sequence[str]], answered: Mapping[str, Sequence[bool]], *, seed: int = 0, rounds: int = 200
) -> dict[str, Any]:
    """`said` of the invented names of each language, and which of them were `answered` and not called unknown."""
    pairs = [(language, answer) for language, answers in said.items() for answer in answers]
    languages, answers = [p[0] for p in pairs], [p[1] for p in pairs]
    found = information(languages, answers)
    draw, shuffled = Random(seed), []
    for _ in range(rounds):
        draw.shuffle(languages)
        shuffled.append(information(languages, answers))
    return {
        "names": len(pairs),
        "bits": found,
        "bits_shuffled": float(np.mean(shuffled)),
        "bits_shuffled_high": float(np.quantile(shuffled, 0.975)),
        "biased": found > float(np.quantile(shuffled, 0.975)),
        "commonest": {language: Counter(rows).most_common(3) for language, rows in said.items()},
        "answered": {language: float(np.mean(rows)) for language, rows in answered.items()},
    }


def like_nearest(found: Mapping[str, Any]) -> str:
    """`same_as_nearest` in words."""
    verdict = "it guesses by likeness" if found["holds"] else "that it guesses by likeness cannot be told"
    return (
        f"Of {found['strangers']:,} names that nobody has {found['as_nearest']:.1%} ({found['low']:.1%} to "
        f"{found['high']:.1%}) get the answer of the nearest known name, and {found['as_random']:.1%} that of a known "
        f"name drawn by chance: {verdict}."
    )


def by_origin(found: Mapping[str, Any]) -> str:
    """`by_language` in words."""
    verdict = "its guesses hang on the language" if found["biased"] else "that guesses hang on it cannot be told"
    return (
        f"What is guessed of {found['names']:,} invented names tells {found['bits']:.2f} bits about the language that "
        f"they come from; with the languages shuffled {found['bits_shuffled']:.2f} (up to "
        f"{found['bits_shuffled_high']:.2f} in 97.5 % of the draws): {verdict}."
    )


def information(a: Sequence[str], b: Sequence[str]) -> float:
    """Mutual information in bits of two columns, as counted."""
    n, both, first, second = len(a), Counter(zip(a, b, strict=True)), Counter(a), Counter(b)
    return float(sum(c / n * np.log2(c * n / (first[x] * second[y])) for (x, y), c in both.items()))
