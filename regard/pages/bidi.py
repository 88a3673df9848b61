"""Which way words run, and the order in which the words of one line stand from left to right.

The Unicode Bidirectional Algorithm (UAX 9) for whole words: explicit embeddings and isolates are not read, and what
turns inside a word is left to whoever draws the word.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby

_STRONG = {"L": "L", "R": "R", "AL": "R"}


def direction(text: str) -> str:
    """L or R by the first letter that has a direction; 1 for a number, which goes with the letters before it; else
    empty."""
    kinds = [unicodedata.bidirectional(letter) for letter in text]
    strong = next((_STRONG[kind] for kind in kinds if kind in _STRONG), "")
    return strong or ("1" if any(kind in ("EN", "AN") for kind in kinds) else "")


def base(texts: Iterable[str]) -> str:
    """L or R: the direction of the first text that has one, as dir="auto" has it."""
    return next((found for text in texts if (found := direction(text)) in ("L", "R")), "L")


def resolved(directions: Sequence[str], whole: str) -> list[str]:
    """Each L or R. A number goes with what came before it; what has no direction, with its neighbours if they agree
    (rules N1 and N2)."""
    found = list(directions)
    before = whole
    for i, way in enumerate(found):
        if way == "1":
            found[i] = before
        before = found[i] or before
    start = 0
    while start < len(found):
        if found[start]:
            start += 1
            continue
        end = next((i for i in range(start, len(found)) if found[i]), len(found))
        left = found[start - 1] if start else whole
        right = found[end] if end < len(found) else whole
        found[start:end] = [left if left == right else whole] * (end - start)
        start = end
    return found


def visual(directions: Sequence[str], whole: str) -> list[int]:
    """The places of a line's items from left to right; each direction is L or R."""
    order: list[int] = []
    for way, run in groupby(range(len(directions)), key=directions.__getitem__):
        items = list(run)
        order += items if way == whole else items[::-1]
    return order if whole == "L" else order[::-1]
