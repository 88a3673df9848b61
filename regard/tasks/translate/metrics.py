"""How near translations are to their references: BLEU (Papineni et al. 2002), chrF (Popović 2015) and TER (Snover et
al. 2006), by sacrebleu (Post 2018), each with the signature that says how it was computed. Lines are compared as people
read them: sacrebleu cuts them into words itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.errors import UserError


def scores(found: Sequence[str], wanted: Sequence[str]) -> dict[str, Any]:
    """bleu, bleu_lc, chrf, chrf_lc and ter, ter_lc in percent (`_lc`: letter case aside), the share of lines that are
    the reference word by word, and `signatures`."""
    metrics = _sacrebleu()
    if len(found) != len(wanted):
        raise UserError(f"{len(found):,} translations cannot be compared with {len(wanted):,} references")
    numbers: dict[str, float] = {}
    signatures: dict[str, str] = {}
    for name, metric in {
        "bleu": metrics.BLEU(),
        "bleu_lc": metrics.BLEU(lowercase=True),
        "chrf": metrics.CHRF(),
        "chrf_lc": metrics.CHRF(lowercase=True),
        "ter": metrics.TER(case_sensitive=True),
        "ter_lc": metrics.TER(),
    }.items():
        numbers[name] = metric.corpus_score(list(found), [list(wanted)]).score
        signatures[name] = str(metric.get_signature())
    same = sum(a.split() == b.split() for a, b in zip(found, wanted, strict=True))
    return {**numbers, "exact": same / len(wanted), "signatures": signatures}


def bleu(found: Sequence[str], wanted: Sequence[str], *, lowercase: bool = True) -> float:
    """BLEU alone, in percent."""
    return _sacrebleu().BLEU(lowercase=lowercase).corpus_score(list(found), [list(wanted)]).score


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise UserError("translations are measured by sacrebleu, which is missing: pip install sacrebleu") from None
    return metrics
