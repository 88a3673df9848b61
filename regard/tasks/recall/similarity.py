"""Two measurements of how a closed-book model answers about unknown names.

Guessing by similarity: how often is the answer for an unknown name the answer for the nearest known name in the model's
representation? The baseline is a random known name.

Bias: does the answer depend on the language that a name comes from? The mutual information of language and answer in
bits, compared with shuffled languages; and the fraction of names of each language that are answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np


def compare_with_nearest(
    answers: Sequence[str],
    nearest_answers: Sequence[str],
    known_answers: Sequence[str],
    *,
    seed: int = 0,
    rounds: int = 200,
) -> dict[str, Any]:
    """Measure how often an unknown name gets the answer of its nearest known name, with a 95 % bootstrap interval.

    Args:
        answers: Answers for unknown names.
        nearest_answers: Answer for the nearest known name of each.
        known_answers: Answers for known names, from which the random baseline is drawn.
        seed: Random seed.
        rounds: Number of draws for the baseline.
    """
    rng = np.random.default_rng(seed)
    a, b, known = (np.array(list(part), dtype=object) for part in (answers, nearest_answers, known_answers))
    is_same = (a == b).astype(float)
    baseline = np.mean([(a == rng.choice(known, len(a))).mean() for _ in range(rounds)])
    means = [is_same[rng.integers(0, len(is_same), len(is_same))].mean() for _ in range(1000)]
    low, high = np.quantile(means, [0.025, 0.975])
    return {
        "names": len(a),
        "as_nearest": float(is_same.mean()),
        "low": float(low),
        "high": float(high),
        "as_random": float(baseline),
        "significant": bool(low > baseline),
    }


def measure_language_bias(
    answers: Mapping[str, Sequence[str]], answered: Mapping[str, Sequence[bool]], *, seed: int = 0, rounds: int = 200
) -> dict[str, Any]:
    """Measure how much the answers for invented names depend on the language of the name.

    Args:
        answers: Answers by language.
        answered: Whether each answer is above the threshold, by language.
        seed: Random seed.
        rounds: Number of permutations.
    """
    pairs = [(language, answer) for language, row in answers.items() for answer in row]
    languages, flat = [p[0] for p in pairs], [p[1] for p in pairs]
    bits = mutual_information(languages, flat)
    rng, shuffled = Random(seed), []
    for _ in range(rounds):
        rng.shuffle(languages)
        shuffled.append(mutual_information(languages, flat))
    return {
        "names": len(pairs),
        "bits": bits,
        "bits_shuffled": float(np.mean(shuffled)),
        "bits_shuffled_high": float(np.quantile(shuffled, 0.975)),
        "biased": bits > float(np.quantile(shuffled, 0.975)),
        "most_frequent": {language: Counter(row).most_common(3) for language, row in answers.items()},
        "answered": {language: float(np.mean(row)) for language, row in answered.items()},
    }


def describe_similarity(result: Mapping[str, Any]) -> str:
    """Return the result of `compare_with_nearest` as a sentence."""
    verdict = "it guesses by similarity" if result["significant"] else "no significant guessing by similarity"
    return (
        f"Of {result['names']:,} unknown names, {result['as_nearest']:.1%} ({result['low']:.1%} to "
        f"{result['high']:.1%}) get the answer of the nearest known name, and {result['as_random']:.1%} that of a "
        f"random known name: {verdict}."
    )


def describe_bias(result: Mapping[str, Any]) -> str:
    """Return the result of `measure_language_bias` as a sentence."""
    verdict = "guesses depend on the language" if result["biased"] else "no significant dependence on the language"
    return (
        f"The guesses for {result['names']:,} invented names contain {result['bits']:.2f} bits about the language of "
        f"the name; with shuffled languages {result['bits_shuffled']:.2f} (up to {result['bits_shuffled_high']:.2f} in "
        f"97.5 % of the permutations): {verdict}."
    )


def mutual_information(a: Sequence[str], b: Sequence[str]) -> float:
    """Return the empirical mutual information of two columns in bits."""
    n, joint, first, second = len(a), Counter(zip(a, b, strict=True)), Counter(a), Counter(b)
    return float(sum(c / n * np.log2(c * n / (first[x] * second[y])) for (x, y), c in joint.items()))
