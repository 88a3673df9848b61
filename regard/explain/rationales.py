"""How much of the known evidence attention found, for texts in which the deciding words are known.

fraction     fraction of the attention that falls on the evidence
found        how many of the k evidence words are among the k most attended words; k²/n at random
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from regard.errors import UserError, did_you_mean

Span = tuple[int, int]


def find_spans(text: str, phrases: Sequence[str]) -> list[Span]:
    """Character spans of every occurrence of the phrases, ignoring case."""
    spans: list[Span] = []
    for phrase in phrases:
        inner = r"\s+".join(map(re.escape, phrase.split()))
        pattern = ("\\b" if phrase[:1].isalnum() else "") + inner + ("\\b" if phrase[-1:].isalnum() else "")
        matches = [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)] if inner else []
        if not matches:
            raise UserError(f"the evidence {phrase!r} is not in the text; {did_you_mean(phrase, text.split())}")
        spans += matches
    return sorted(set(spans))


def add_evidence(data: dict[str, Any], spans: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Add evidence spans and how much of them attention found to a look's data; unchanged if it has no weights."""
    weights = data.get("weights")
    if weights is None:
        return data
    is_evidence = [any(t["start"] < end and start < t["end"] for start, end in spans) for t in data["tokens"]]
    fraction = sum(w for w, inside in zip(weights, is_evidence, strict=True) if inside) / max(sum(weights), 1e-12)
    by_word: dict[Any, float] = {}
    evidence_words = set()
    for index, (token, weight, inside) in enumerate(zip(data["tokens"], weights, is_evidence, strict=True)):
        if token["special"]:
            continue
        word = index if token["word"] is None else ("word", token["word"])
        by_word[word] = by_word.get(word, 0.0) + weight
        if inside:
            evidence_words.add(word)
    k = len(evidence_words)
    top_words = set(sorted(by_word, key=lambda word: -by_word[word])[:k])
    recall = {"total": k, "found": len(top_words & evidence_words), "random": k * k / max(1, len(by_word))}
    return data | {"evidence": [list(span) for span in spans], "evidence_fraction": fraction, "evidence_recall": recall}
