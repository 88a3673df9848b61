"""Metrics of captions: BLEU-1 to 4 (Papineni et al. 2002) over the corpus, each caption against all its references.

    BLEU-n = brevity · exp(mean over 1..n of log p_n)        brevity = min(1, exp(1 - r / c)), r the nearest reference

Computed by sacrebleu (Post 2018) on normalized captions (regard.data.caption_files.normalize_caption). Images may have
different numbers of references. CIDEr (Vedantam et al. 2015) is computed if its library, pycocoevalcap, is installed.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from regard.errors import UserError

MAX_ORDER = 4


def compute_caption_metrics(captions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Compare captions with the references of each image.

    Returns:
        bleu1 to bleu4 and bleu (equal to bleu4) in percent; the brevity penalty; the mean length in words; `exact`, the
        fraction of captions that equal a reference; and `cider`, times 100, if it is available.
    """
    if len(captions) != len(references):
        raise UserError(f"got {len(captions):,} captions, but references of {len(references):,} images")
    if not captions or not all(references):
        raise UserError("captions need at least one image, and at least one reference for each")
    max_references = max(map(len, references))
    streams = [[refs[i] if i < len(refs) else None for refs in references] for i in range(max_references)]
    score = build_bleu().corpus_score(list(captions), streams)
    bleu = {f"bleu{n}": _cumulative_bleu(score, n) for n in range(1, MAX_ORDER + 1)}
    exact = sum(caption in refs for caption, refs in zip(captions, references, strict=True)) / len(captions)
    length = sum(len(caption.split()) for caption in captions) / len(captions)
    return {
        "bleu": bleu["bleu4"],
        **bleu,
        "brevity": score.bp,
        "length": length,
        "exact": exact,
        **compute_cider(captions, references),
    }


def compute_cider(captions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return CIDEr-D with document frequencies of these references.

    Empty if pycocoevalcap is not installed, or for a single image, for which document frequencies are undefined.
    """
    try:
        scorer: Any = importlib.import_module("pycocoevalcap.cider.cider").Cider()
    except ImportError:
        return {}
    if len(captions) < 2:
        return {}
    score, _ = scorer.compute_score(
        {i: list(refs) for i, refs in enumerate(references)}, {i: [caption] for i, caption in enumerate(captions)}
    )
    return {"cider": 100 * float(score)}


def build_bleu() -> Any:
    """Return sacrebleu's BLEU for normalized captions."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise UserError("caption metrics need the package sacrebleu: pip install sacrebleu") from None
    return BLEU(tokenize="none", force=True)


def _cumulative_bleu(score: Any, order: int) -> float:
    pairs = list(zip(score.counts, score.totals, strict=True))[:order]
    if any(not correct for correct, _ in pairs):
        return 0.0
    return 100 * score.bp * math.exp(sum(math.log(correct / total) for correct, total in pairs) / order)
