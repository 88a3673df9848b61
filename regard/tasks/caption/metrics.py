"""How near captions are to those that people wrote: BLEU-1 to 4 (Papineni et al. 2002) over a corpus, each caption
against all references of its picture.

    BLEU-n = brevity · exp(mean over 1..n of log p_n)        brevity = min(1, exp(1 - r / c)), r the nearest reference

Counted by sacrebleu (Post 2018) on words as they stand: letter case and punctuation were put aside before
(data/captions.clean), as is usual for captions. Pictures may have different numbers of references. CIDEr (Vedantam et
al. 2015) is counted where the library of its authors is installed, pycocoevalcap.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from regard.errors import UserError

ORDERS = 4


def scores(found: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """bleu1 to bleu4 and bleu (which is bleu4) in percent, the brevity penalty, the mean length of a caption, and
    `exact`, the share that is one of its references word by word; and `cider`, a hundredfold, if it can be counted."""
    if len(found) != len(references):
        raise UserError(f"{len(found):,} captions cannot be compared with references of {len(references):,} pictures")
    if not found or not all(references):
        raise UserError("captions are compared with one reference each, at least; there are none")
    most = max(map(len, references))
    streams = [[refs[i] if i < len(refs) else None for refs in references] for i in range(most)]
    made = _bleu().corpus_score(list(found), streams)
    numbers = {f"bleu{n}": _cumulative(made, n) for n in range(1, ORDERS + 1)}
    exact = sum(said in refs for said, refs in zip(found, references, strict=True)) / len(found)
    length = sum(len(said.split()) for said in found) / len(found)
    return {
        "bleu": numbers["bleu4"],
        **numbers,
        "brevity": made.bp,
        "length": length,
        "exact": exact,
        **cider(found, references),
    }


def cider(found: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """CIDEr-D over these pictures, with how often words are said in these references; none where pycocoevalcap is not
    installed, or for a single picture, of which nothing is rare."""
    try:
        scorer: Any = importlib.import_module("pycocoevalcap.cider.cider").Cider()
    except ImportError:
        return {}
    if len(found) < 2:
        return {}
    score, _ = scorer.compute_score(
        {i: list(refs) for i, refs in enumerate(references)}, {i: [s] for i, s in enumerate(found)}
    )
    return {"cider": 100 * float(score)}


def _cumulative(made: Any, order: int) -> float:
    pairs = list(zip(made.counts, made.totals, strict=True))[:order]
    if any(not right for right, _ in pairs):
        return 0.0
    return 100 * made.bp * math.exp(sum(math.log(right / total) for right, total in pairs) / order)


def _bleu() -> Any:
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise UserError("captions are measured by sacrebleu, which is missing: pip install sacrebleu") from None
    return BLEU(tokenize="none", force=True)
