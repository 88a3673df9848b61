"""Is the picture faithful? Take away the words that attention points at and see what the model then says.

    comprehensiveness   p(class | text) - p(class | text without the words attended to most)      high if they mattered
    sufficiency         p(class | text) - p(class | those words alone)                            low if they are enough

(DeYoung et al. 2020, ERASER, section 4.) Each stands beside the same number of words drawn at random, many times: an
explanation that is no better than the draws explains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Predict = Callable[[Sequence[np.ndarray]], np.ndarray]
"""Which tokens are kept, a bool array each, to p(class) of each."""


@dataclass(frozen=True)
class Measure:
    name: str
    attention: float
    random: float
    better_than: float  # share of the random draws that attention beats
    explain: str


@dataclass(frozen=True)
class Faithfulness:
    measures: list[Measure]
    sentence: str


def faithfulness(
    predict: Predict,
    weights: np.ndarray,
    words: Sequence[int],
    label: str,
    *,
    share: float = 0.2,
    draws: int = 40,
    seed: int = 0,
) -> Faithfulness:
    """`words` says which word each token belongs to; whole words are taken away. `predict` gives p of the class in
    question."""
    names, word = np.unique(np.asarray(words), return_inverse=True)
    weight = np.bincount(word, weights=weights, minlength=len(names))
    count = max(1, round(share * len(names)))
    random = np.random.default_rng(seed)
    chosen = [np.argsort(-weight, kind="stable")[:count]]
    chosen += [random.choice(len(names), count, replace=False) for _ in range(draws)]
    kept = [np.ones(len(word), bool)]
    for pick in chosen:
        inside = np.isin(word, pick)
        kept += [~inside, inside]
    p = predict(kept)
    without, alone = p[0] - p[1::2], p[0] - p[2::2]
    comprehensive = Measure(
        "comprehensiveness",
        float(without[0]),
        float(without[1:].mean()),
        float((without[0] > without[1:]).mean()),
        f"fall of p({label}) when the {count} words attended to most are taken away",
    )
    sufficient = Measure(
        "sufficiency",
        float(alone[0]),
        float(alone[1:].mean()),
        float((alone[0] < alone[1:]).mean()),
        f"fall of p({label}) when only these {count} words are left (lower is better)",
    )
    return Faithfulness([comprehensive, sufficient], _verdict(comprehensive, sufficient, count, len(names), draws))


def _verdict(comprehensive: Measure, sufficient: Measure, count: int, total: int, draws: int) -> str:
    """A plain sentence. Better than chance means better than 95 % of the draws."""
    if total < 3:
        return "The text is too short to tell whether attention explains the prediction."
    good = [m.name for m in (comprehensive, sufficient) if m.better_than >= 0.95]
    if len(good) == 2:
        return (
            f"On this input attention is a faithful explanation: without the {count} words most attended to the "
            f"prediction changes more than with {comprehensive.better_than:.0%} of {draws} random choices, and they "
            f"alone keep it better than {sufficient.better_than:.0%}."
        )
    if good:
        other = "sufficiency" if good[0] == "comprehensiveness" else "comprehensiveness"
        return f"On this input attention is better than chance by {good[0]}, and not by {other}: believe it in part."
    return "On this input attention is no better than chance as an explanation."
