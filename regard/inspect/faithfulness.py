"""Is the picture faithful? Take away the words that attention points at and see what the model then says.

    comprehensiveness     s(text) - s(text without the words attended to most)            high if they mattered
    sufficiency           s(text) - s(those words alone)                                  low if they are enough
    leave-one-out         rank correlation of the weights with |s(text) - s(text without the word)|
    gradients             rank correlation of the weights with |integrated gradients| (regard.inspect.integrated_gradients)

s is what is asked about: p(class), the log-probability of a word, how alike two vectors are. (DeYoung et al. 2020,
ERASER, section 4; Jain and Wallace 2019, section 4.1.) Each stands beside two controls: as many words drawn at random,
many times, and words spread evenly over the text, as attention that regards all alike would have it. An explanation
that is no better than the draws explains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Predict = Callable[[Sequence[np.ndarray]], np.ndarray]
"""Which tokens are kept, a bool array each, to s of each: (rows,), or (rows, questions) where several are asked."""

GOOD = 0.95  # better than chance: better than this share of the draws
SHUFFLES = 400  # of ranks, which cost nothing
SMALL = 0.01  # a fall of p, or of a log-probability, that nobody would notice
PHASES = 4  # of words spread evenly: from which one on


@dataclass(frozen=True)
class Measure:
    """`random` and `uniform` are the controls in the mean; `better_than` is the share of the random draws that
    attention beats."""

    name: str
    attention: float
    random: float
    uniform: float
    better_than: float
    explain: str


@dataclass(frozen=True)
class Faithfulness:
    """`moved` says of each token how far its word's absence moves s, shared by the tokens of the word; 0 where it was
    not asked. `without` is s without the word of each token, NaN where it was not asked."""

    measures: list[Measure]
    sentence: str
    moved: np.ndarray | None = None
    without: np.ndarray | None = None

    def as_dict(self) -> dict:
        keys = ("attention", "random", "uniform", "better_than", "explain")
        rows = [{"measure": m.name, **{key: getattr(m, key) for key in keys}} for m in self.measures]
        return {"sentence": self.sentence, "rows": rows}


def faithfulness(
    predict: Predict,
    weights: np.ndarray,
    words: Sequence[int],
    label: str,
    *,
    said: str = "p",
    gradient: np.ndarray | None = None,
    share: float = 0.2,
    draws: int = 40,
    most: int = 256,
    seed: int = 0,
) -> Faithfulness:
    """`words` says which word each token belongs to, -1 for tokens that always stay; whole words are taken away.
    `predict` gives s of what is asked about, which is called said(label). `gradient` is what the gradients say of each
    token, if they were asked. More than `most` words are left out one by one as a sample."""

    def column(kept: Sequence[np.ndarray]) -> np.ndarray:
        return np.asarray(predict(kept))[:, None]

    gradients = None if gradient is None else [gradient]
    how = {"said": said, "share": share, "draws": draws, "most": most, "seed": seed}
    return faithfulness_of_each(column, [weights], words, [label], gradients=gradients, **how)[0]


def faithfulness_of_each(
    predict: Predict,
    weights: Sequence[np.ndarray],
    words: Sequence[int],
    labels: Sequence[str],
    *,
    about: Sequence[int] | None = None,
    erased: int | None = None,
    said: str = "p",
    unit: str = "word",
    gradients: Sequence[np.ndarray | None] | None = None,
    share: float = 0.2,
    draws: int = 40,
    most: int = 256,
    seed: int = 0,
) -> list[Faithfulness]:
    """Several pictures of one text, such as those of its heads, or of the words of a translation: the draws serve all
    of them, since `predict` answers all questions at once. `about` says which question each row of `weights` is about
    (the first row the first one, and so on). Only the first `erased` pictures (all by default) are measured by
    erasing, which takes predictions of their own; the agreements of the others cost nothing. `unit` is what is taken
    away: a word, or a place of a picture."""
    about = range(len(labels)) if about is None else about
    erased = len(weights) if erased is None else min(erased, len(weights))
    given = np.asarray(words)
    free = given >= 0
    names, word = np.unique(given[free], return_inverse=True)
    n = len(names)
    if n < 3:
        short = f"The input has too few {unit}s to tell whether attention explains the prediction."
        return [Faithfulness([], short) for _ in weights]
    count = max(1, round(share * n))
    random = np.random.default_rng(seed)

    def by_word(values: np.ndarray) -> np.ndarray:
        return np.bincount(word, weights=np.asarray(values, float)[free], minlength=n)

    def without(pick: np.ndarray) -> np.ndarray:
        kept = np.ones(len(given), bool)
        kept[free] = ~np.isin(word, pick)
        return kept

    def alone(pick: np.ndarray) -> np.ndarray:
        return without(np.setdiff1d(np.arange(n), pick))

    each = [by_word(row) for row in weights]
    chosen = [np.argsort(-row, kind="stable")[:count] for row in each[:erased]]
    drawn = [random.choice(n, count, replace=False) for _ in range(draws)]
    even = [np.unique(((np.arange(count) + (p + 0.5) / PHASES) * n / count).astype(int)) for p in range(PHASES)]
    left_out = np.arange(n) if n <= most else np.sort(random.choice(n, most, replace=False))
    picks = [*chosen, *drawn, *even]
    rows = [np.ones(len(given), bool), *map(without, picks), *map(alone, picks)]
    rows += [without(np.array([i])) for i in left_out]
    s = _once(predict, rows)
    p = len(picks)
    fall = s[0] - s
    moved = np.abs(fall[1 + 2 * p :])
    orders = [_Order(moved[:, j], random) for j in range(len(labels))]
    slopes = [None if g is None else _Order(by_word(np.abs(g)), random) for g in gradients or [None] * len(labels)]
    top, these = (f"{unit} attended to most is", f"this {unit} is")
    if count > 1:
        top, these = f"{count} {unit}s attended to most are", f"these {count} {unit}s are"
    asked = f"each {unit}" if len(left_out) == n else f"{len(left_out)} of the {n} {unit}s"
    made = []
    for i, j in enumerate(about):
        one = f"{said}({shortened(labels[j])})"
        measures = []
        for name, first, sign, explain in (
            ("comprehensiveness", 1, 1, f"fall of {one} when the {top} taken away"),
            ("sufficiency", 1 + p, -1, f"fall of {one} when only {these} left (lower is better)"),
        ):
            if i >= erased:
                continue
            block = fall[first : first + p, j]
            mine, chance, spread = block[i], block[erased : erased + draws], block[erased + draws :]
            beaten = float((sign * mine > sign * chance).mean())
            measures.append(Measure(name, float(mine), float(chance.mean()), float(spread.mean()), beaten, explain))
        explain = f"rank correlation of the weights with how far {one} moves when {asked} is left out by itself"
        measures.append(orders[j].agreement("leave-one-out", each[i][left_out], explain))
        slope = slopes[j]
        if slope is not None:
            explain = f"rank correlation of the weights with the integrated gradients of {one}"
            measures.append(slope.agreement("gradients", each[i], explain))
        by_token, bare = np.zeros(len(given)), np.full(n, np.nan)
        by_token[free] = (np.bincount(left_out, moved[:, j], n) / np.bincount(word, minlength=n))[word]
        bare[left_out] = s[1 + 2 * p :, j]
        left = np.full(len(given), np.nan)
        left[free] = bare[word]
        made.append(Faithfulness(measures, _verdict(measures, count, draws, unit), by_token, left))
    return made


def shortened(label: str, most: int = 24) -> str:
    """A label that fits into a sentence."""
    return label if len(label) <= most else label[: most - 1] + "…"


def _once(predict: Predict, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Each row asked once, however often it stands there: heads that are alike choose the same words."""
    unlike = {row.tobytes(): row for row in rows}
    number = {key: i for i, key in enumerate(unlike)}
    said = np.asarray(predict(list(unlike.values())), float)
    return said[[number[row.tobytes()] for row in rows]]


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's: 1 where both put the words in the same order; 0 where one of them has no order."""
    x, y = _ranks(a), _ranks(b)
    return float(x @ y)


class _Order:
    """What weights are compared with, and the same shuffled: how far weights without any order in common agree."""

    def __init__(self, values: np.ndarray, random: np.random.Generator):
        self.ranks = _ranks(values)
        self.shuffled = np.stack([random.permutation(self.ranks) for _ in range(SHUFFLES)])

    def agreement(self, name: str, weights: np.ndarray, explain: str) -> Measure:
        """Even weights have no order, and so agree with nothing."""
        ranks = _ranks(weights)
        mine, chance = float(self.ranks @ ranks), self.shuffled @ ranks
        return Measure(name, mine, float(chance.mean()), 0.0, float((mine > chance).mean()), explain)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks about their mean, of length one."""
    from scipy.stats import rankdata

    ranks = rankdata(values)
    ranks -= ranks.mean()
    length = float(np.linalg.norm(ranks))
    return ranks / length if length > 0 else ranks


def _verdict(measures: Sequence[Measure], count: int, draws: int, unit: str) -> str:
    """A plain sentence."""
    by_name = {m.name: m for m in measures}
    good = [m.name for m in measures if m.better_than >= GOOD]
    bad = [m.name for m in measures if m.better_than < GOOD]
    words = f"{count} {unit}s" if count > 1 else unit
    if not good:
        return "On this input attention is no better than chance as an explanation."
    if {"comprehensiveness", "sufficiency"} <= set(good):
        beside = f" It does not agree with {_and(bad)}." if bad else ""
        moves = by_name["comprehensiveness"].attention
        if moves < SMALL:
            beside += f" But the prediction moves by {moves:.2g} only: there is little to explain."
        alone = "they alone keep" if count > 1 else "it alone keeps"
        return (
            f"On this input attention is a faithful explanation: without the {words} most attended to the prediction "
            f"changes more than with {by_name['comprehensiveness'].better_than:.0%} of {draws} random choices, and "
            f"{alone} it better than {by_name['sufficiency'].better_than:.0%}.{beside}"
        )
    if not bad:
        return f"On this input attention is better than chance by {_and(good)}, which is all that was measured."
    return f"On this input attention is better than chance by {_and(good)}, and not by {_and(bad)}: believe it in part."


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
