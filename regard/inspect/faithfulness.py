"""Is attention a faithful explanation? Remove the most attended words and measure how the model's score changes.

    comprehensiveness     s(text) - s(text without the most attended words)              high if they mattered
    sufficiency           s(text) - s(only the most attended words)                      low if they are enough
    leave-one-out         rank correlation of the weights with |s(text) - s(text without the word)|
    gradients             rank correlation of the weights with |integrated gradients| (integrated_gradients.py)

s is the score of a target: p(class), the log-probability of a word, the similarity of two vectors. (DeYoung et al.
2020, ERASER, section 4; Jain and Wallace 2019, section 4.1.) Each metric has two baselines: the same number of words
chosen at random, many times, and words at equal distances, as uniform attention would choose them. An explanation that
is no better than random words explains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ScoreFn = Callable[[Sequence[np.ndarray]], np.ndarray]
"""Maps keep-masks, each (tokens,) bool, to scores: (masks,), or (masks, targets) for several targets."""

SIGNIFICANT = 0.95  # better than chance: better than this fraction of the random baselines
NUM_SHUFFLES = 400  # of the ranks
SMALL_CHANGE = 0.01  # of a probability or log-probability, too small to explain
NUM_OFFSETS = 4  # of the uniform baseline: which word it starts with


@dataclass(frozen=True)
class Metric:
    """A metric with its baselines.

    Attributes:
        name: "comprehensiveness", "sufficiency", "leave-one-out" or "gradients".
        attention: Value for the attention weights.
        random: Mean over the random baselines.
        uniform: Value for uniform attention.
        better_than: Fraction of the random baselines that attention beats.
        description: What was measured, for the reader.
    """

    name: str
    attention: float
    random: float
    uniform: float
    better_than: float
    description: str


@dataclass(frozen=True)
class Faithfulness:
    """How faithful attention is as an explanation of one score.

    Attributes:
        metrics: Comprehensiveness, sufficiency and rank correlations, each with its random and uniform baseline.
        verdict: One sentence for the reader.
        effect: Change of the score without the word of each token, divided among the tokens of the word; 0 for words
            that were not measured. (tokens,)
        score_without: Score without the word of each token; NaN for words that were not measured. (tokens,)
    """

    metrics: list[Metric]
    verdict: str
    effect: np.ndarray | None = None
    score_without: np.ndarray | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "metrics": [vars(metric) for metric in self.metrics]}


def faithfulness(
    score_fn: ScoreFn,
    attention: np.ndarray,
    word_ids: Sequence[int],
    target: str,
    *,
    score_name: str = "p",
    gradient: np.ndarray | None = None,
    top_fraction: float = 0.2,
    num_random: int = 40,
    max_words: int = 256,
    seed: int = 0,
) -> Faithfulness:
    """Measure whether the most attended words matter for the model's score.

    Removes them, and compares the drop in score with the drop for random words (ERASER, DeYoung et al. 2020, sec. 4).

    Args:
        score_fn: Maps keep-masks, each (tokens,) bool, to the score of `target`, (masks,).
        attention: Attention weight of each token, (tokens,).
        word_ids: Word of each token; -1 for tokens that are never removed, such as [CLS]. Words are removed whole.
        target: What the score is about, such as the predicted class; shown in the report.
        score_name: Name of the score, such as "p" or "log p"; shown in the report.
        gradient: Integrated gradients of each token, (tokens,), for their rank correlation with attention.
        top_fraction: Fraction of the words that counts as most attended.
        num_random: Number of random baselines.
        max_words: Texts with more words than this are measured on a random sample of words.
        seed: Seed of the random baselines.

    Returns:
        Comprehensiveness, sufficiency and rank correlations, each with its random and uniform baseline.
    """
    return faithfulness_of_maps(
        lambda masks: np.asarray(score_fn(masks))[:, None],
        [attention],
        word_ids,
        [target],
        score_name=score_name,
        gradients=None if gradient is None else [gradient],
        top_fraction=top_fraction,
        num_random=num_random,
        max_words=max_words,
        seed=seed,
    )[0]


def faithfulness_of_maps(
    score_fn: ScoreFn,
    attention: Sequence[np.ndarray],
    word_ids: Sequence[int],
    targets: Sequence[str],
    *,
    target_ids: Sequence[int] | None = None,
    num_erased: int | None = None,
    score_name: str = "p",
    unit: str = "word",
    gradients: Sequence[np.ndarray | None] | None = None,
    top_fraction: float = 0.2,
    num_random: int = 40,
    max_words: int = 256,
    seed: int = 0,
) -> list[Faithfulness]:
    """Measure several attention maps of one text, such as those of its heads or of the words of a translation.

    Random baselines and leave-one-out predictions are computed once and shared; each map adds two forward passes (top
    words removed, top words only).

    Args:
        score_fn: Maps keep-masks, each (tokens,) bool, to the scores of all targets, (masks, targets).
        attention: Weights of each map, (tokens,) each.
        word_ids: Word of each token; -1 for tokens that are never removed. Words are removed whole.
        targets: What each score is about.
        target_ids: Target of each map; the first map explains the first target and so on by default.
        num_erased: Only this many maps (all by default) are measured by removing words. The others have rank
            correlations only, which need no forward pass.
        unit: What is removed, for the reader: "word", or "cell" of an image.
        gradients: Integrated gradients of each target, (tokens,) each.

    The other arguments are those of `faithfulness`.
    """
    target_ids = range(len(targets)) if target_ids is None else target_ids
    num_erased = len(attention) if num_erased is None else min(num_erased, len(attention))
    token_words = np.asarray(word_ids)
    removable = token_words >= 0
    unique, word = np.unique(token_words[removable], return_inverse=True)
    n = len(unique)
    if n < 3:
        verdict = f"The input has too few {unit}s to tell whether attention explains the prediction."
        return [Faithfulness([], verdict) for _ in attention]
    num_top = max(1, round(top_fraction * n))
    rng = np.random.default_rng(seed)

    def sum_by_word(values: np.ndarray) -> np.ndarray:
        return np.bincount(word, weights=np.asarray(values, float)[removable], minlength=n)

    def remove(words: np.ndarray) -> np.ndarray:
        mask = np.ones(len(token_words), bool)
        mask[removable] = ~np.isin(word, words)
        return mask

    def keep_only(words: np.ndarray) -> np.ndarray:
        return remove(np.setdiff1d(np.arange(n), words))

    weights = [sum_by_word(row) for row in attention]
    top = [np.argsort(-row, kind="stable")[:num_top] for row in weights[:num_erased]]
    random = [rng.choice(n, num_top, replace=False) for _ in range(num_random)]
    offsets = [(offset + 0.5) / NUM_OFFSETS for offset in range(NUM_OFFSETS)]
    uniform = [np.unique(((np.arange(num_top) + offset) * n / num_top).astype(int)) for offset in offsets]
    left_out = np.arange(n) if n <= max_words else np.sort(rng.choice(n, max_words, replace=False))
    choices = [*top, *random, *uniform]
    masks = [np.ones(len(token_words), bool), *map(remove, choices), *map(keep_only, choices)]
    masks += [remove(np.array([i])) for i in left_out]
    scores = _score_unique(score_fn, masks)
    num_choices = len(choices)
    drops = scores[0] - scores
    effects = np.abs(drops[1 + 2 * num_choices :])
    effect_ranks = [_Ranking(effects[:, j], rng) for j in range(len(targets))]
    gradient_ranks = [
        None if g is None else _Ranking(sum_by_word(np.abs(g)), rng) for g in gradients or [None] * len(targets)
    ]
    top_words, only_words = (f"{unit} attended to most is", f"this {unit} is")
    if num_top > 1:
        top_words, only_words = f"{num_top} {unit}s attended to most are", f"these {num_top} {unit}s are"
    measured = f"each {unit}" if len(left_out) == n else f"{len(left_out)} of the {n} {unit}s"
    results = []
    for i, j in enumerate(target_ids):
        score_label = f"{score_name}({shorten(targets[j])})"
        metrics = []
        for name, first, sign, description in (
            ("comprehensiveness", 1, 1, f"drop of {score_label} if the {top_words} removed"),
            (
                "sufficiency",
                1 + num_choices,
                -1,
                f"drop of {score_label} if only {only_words} left (lower is better)",
            ),
        ):
            if i >= num_erased:
                continue
            block = drops[first : first + num_choices, j]
            value, by_chance = block[i], block[num_erased : num_erased + num_random]
            mean_uniform = float(block[num_erased + num_random :].mean())
            better_than = float((sign * value > sign * by_chance).mean())
            metrics.append(Metric(name, float(value), float(by_chance.mean()), mean_uniform, better_than, description))
        description = f"rank correlation of the weights with the change of {score_label} when {measured} is left out"
        metrics.append(effect_ranks[j].correlate("leave-one-out", weights[i][left_out], description))
        ranking = gradient_ranks[j]
        if ranking is not None:
            description = f"rank correlation of the weights with the integrated gradients of {score_label}"
            metrics.append(ranking.correlate("gradients", weights[i], description))
        effect, word_scores = np.zeros(len(token_words)), np.full(n, np.nan)
        effect[removable] = (np.bincount(left_out, effects[:, j], n) / np.bincount(word, minlength=n))[word]
        word_scores[left_out] = scores[1 + 2 * num_choices :, j]
        score_without = np.full(len(token_words), np.nan)
        score_without[removable] = word_scores[word]
        results.append(Faithfulness(metrics, _verdict(metrics, num_top, num_random, unit), effect, score_without))
    return results


def shorten(label: str, max_length: int = 24) -> str:
    """Truncate a label so that it fits into a sentence."""
    return label if len(label) <= max_length else label[: max_length - 1] + "…"


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation: 1 for the same order; 0 if all values of one of them are equal."""
    return float(_ranks(a) @ _ranks(b))


def _score_unique(score_fn: ScoreFn, masks: Sequence[np.ndarray]) -> np.ndarray:
    """Score each distinct mask once: similar heads choose the same words."""
    unique = {mask.tobytes(): mask for mask in masks}
    index = {key: i for i, key in enumerate(unique)}
    scores = np.asarray(score_fn(list(unique.values())), float)
    return scores[[index[mask.tobytes()] for mask in masks]]


class _Ranking:
    """Ranks that attention weights are compared with, and random permutations of them as the baseline."""

    def __init__(self, values: np.ndarray, rng: np.random.Generator):
        self.ranks = _ranks(values)
        self.shuffled = np.stack([rng.permutation(self.ranks) for _ in range(NUM_SHUFFLES)])

    def correlate(self, name: str, weights: np.ndarray, description: str) -> Metric:
        """Rank correlation with the weights; that of uniform weights is 0."""
        ranks = _ranks(weights)
        value, by_chance = float(self.ranks @ ranks), self.shuffled @ ranks
        return Metric(name, value, float(by_chance.mean()), 0.0, float((value > by_chance).mean()), description)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Centered ranks of unit norm."""
    from scipy.stats import rankdata

    ranks = rankdata(values)
    ranks -= ranks.mean()
    norm = float(np.linalg.norm(ranks))
    return ranks / norm if norm > 0 else ranks


def _verdict(metrics: Sequence[Metric], num_top: int, num_random: int, unit: str) -> str:
    by_name = {metric.name: metric for metric in metrics}
    good = [metric.name for metric in metrics if metric.better_than >= SIGNIFICANT]
    bad = [metric.name for metric in metrics if metric.better_than < SIGNIFICANT]
    if not good:
        return "On this input attention is no better than chance as an explanation."
    if {"comprehensiveness", "sufficiency"} <= set(good):
        caveat = f" It does not agree with {_join(bad)}." if bad else ""
        drop = by_name["comprehensiveness"].attention
        if drop < SMALL_CHANGE:
            caveat += f" But the prediction changes by {drop:.2g} only: there is little to explain."
        words = f"{num_top} {unit}s" if num_top > 1 else unit
        alone = "they alone keep" if num_top > 1 else "it alone keeps"
        return (
            f"On this input attention is a faithful explanation: without the {words} most attended to the prediction "
            f"changes more than with {by_name['comprehensiveness'].better_than:.0%} of {num_random} random choices, "
            f"and {alone} it better than {by_name['sufficiency'].better_than:.0%}.{caveat}"
        )
    if not bad:
        return f"On this input attention is better than chance by {_join(good)}, which is all that was measured."
    return f"On this input attention is better than chance by {_join(good)}, but not by {_join(bad)}: trust it in part."


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
