"""Metrics of translations: BLEU (Papineni et al. 2002), chrF (Popović 2015) and TER (Snover et al. 2006).

They are computed by sacrebleu (Post 2018), each with the signature that says how. sacrebleu tokenizes the text itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.errors import UserError


def compute_metrics(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Compute all metrics.

    Returns:
        bleu, chrf and ter in percent, and bleu_lc, chrf_lc and ter_lc without letter case; "exact", the fraction of
        translations that equal their reference word by word; and "signatures".
    """
    metrics = _import_metrics()
    if len(translations) != len(references):
        raise UserError(f"there are {len(translations):,} translations, but {len(references):,} references")
    scores: dict[str, float] = {}
    signatures: dict[str, str] = {}
    for name, metric in {
        "bleu": metrics.BLEU(),
        "bleu_lc": metrics.BLEU(lowercase=True),
        "chrf": metrics.CHRF(),
        "chrf_lc": metrics.CHRF(lowercase=True),
        "ter": metrics.TER(case_sensitive=True),
        "ter_lc": metrics.TER(),
    }.items():
        scores[name] = metric.corpus_score(list(translations), [list(references)]).score
        signatures[name] = str(metric.get_signature())
    exact = sum(a.split() == b.split() for a, b in zip(translations, references, strict=True))
    return {**scores, "exact": exact / len(references), "signatures": signatures}


def bleu(translations: Sequence[str], references: Sequence[str], *, lowercase: bool = True) -> float:
    """BLEU in percent."""
    metric = _import_metrics().BLEU(lowercase=lowercase)
    return metric.corpus_score(list(translations), [list(references)]).score


def count_ngrams(metric: Any, hypothesis: str, references: Sequence[str]) -> list[float]:
    """Count what BLEU of one segment is made of, so that the counts of segments can be summed.

    Args:
        metric: A `BLEU` of sacrebleu.
        hypothesis: The output.
        references: Its references.

    Returns:
        Length of the hypothesis and of the reference, matching n-grams (n = 1..4), all n-grams (n = 1..4).
    """
    score = metric.corpus_score([hypothesis], [[reference] for reference in references])
    return [score.sys_len, score.ref_len, *score.counts, *score.totals]


def bleu_from_counts(counts: np.ndarray) -> np.ndarray:
    """Corpus BLEU from summed counts (..., 10) of `count_ngrams`.

    As sacrebleu smooths it (smooth_method="exp"): if no n-gram of some n matches, 1/2, 1/4, ... of one is counted.
    """
    matches, totals = counts[..., 2:6], counts[..., 6:10]
    logs = np.log(_precisions(matches, totals)).mean(-1)
    defined = (totals > 0).all(-1) & (matches[..., 0] > 0)  # without 4-grams or a matching word sacrebleu returns 0
    return np.where(defined, 100 * brevity_penalty(counts) * np.exp(logs), 0.0)


def sentence_bleu(counts: np.ndarray) -> np.ndarray:
    """BLEU of single sentences from counts (..., 10), over the n for which there are n-grams (effective order)."""
    matches, totals = counts[..., 2:6], counts[..., 6:10]
    exists = totals > 0
    logs = (np.log(_precisions(matches, totals)) * exists).sum(-1) / np.maximum(exists.sum(-1), 1)
    return np.where(matches[..., 0] > 0, 100 * brevity_penalty(counts) * np.exp(logs), 0.0)


def brevity_penalty(counts: np.ndarray) -> np.ndarray:
    """The brevity penalty of BLEU from counts (..., 10)."""
    return np.exp(np.minimum(0.0, 1 - counts[..., 1] / np.maximum(counts[..., 0], 1e-12)))


def _precisions(matches: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Smoothed n-gram precisions."""
    no_match = (matches == 0) & (totals > 0)
    smoothed = np.where(no_match, 0.5 ** np.cumsum(no_match, -1), matches)
    return np.maximum(smoothed / np.maximum(totals, 1e-12), 1e-300)


def _import_metrics() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise UserError("BLEU needs the package sacrebleu: pip install sacrebleu") from None
    return metrics
