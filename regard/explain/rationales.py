"""Where it is known which words decide: how much of them attention found.

share     the part of the attention that falls on them
found     how many of the k deciding words are among the k most attended to; by chance k²/n would be
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from regard.errors import UserError, did_you_mean

Span = tuple[int, int]


def spans_of(text: str, phrases: Sequence[str]) -> list[Span]:
    """Where these words stand in the text, each as often as it does; small and large letters are the same."""
    found: list[Span] = []
    for phrase in phrases:
        inner = r"\s+".join(map(re.escape, phrase.split()))
        edges = ("\\b" if phrase[:1].isalnum() else "") + inner + ("\\b" if phrase[-1:].isalnum() else "")
        here = [match.span() for match in re.finditer(edges, text, re.IGNORECASE)] if inner else []
        if not here:
            raise UserError(f"the text has no {phrase!r}, which is to be the evidence; {did_you_mean(phrase, text.split())}")
        found += here
    return sorted(set(found))


def compared(data: dict[str, Any], spans: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The data of a look, with the evidence and how much of it was found; as it was where nothing has a weight."""
    weights = data.get("weights")
    if weights is None:
        return data
    inside = [any(t["start"] < b and a < t["end"] for a, b in spans) for t in data["tokens"]]
    total = sum(weights)
    share = sum(w for w, known in zip(weights, inside, strict=True) if known) / max(total, 1e-12)
    by_word: dict[Any, float] = {}
    deciding = set()
    for number, (token, weight, known) in enumerate(zip(data["tokens"], weights, inside, strict=True)):
        if token["special"]:
            continue
        word = number if token["word"] is None else ("word", token["word"])
        by_word[word] = by_word.get(word, 0.0) + weight
        if known:
            deciding.add(word)
    k = len(deciding)
    most = set(sorted(by_word, key=lambda word: -by_word[word])[:k])
    found = {"of": k, "found": len(most & deciding), "chance": k * k / max(1, len(by_word))}
    return data | {"evidence": [list(span) for span in spans], "evidence_share": share, "evidence_found": found}
