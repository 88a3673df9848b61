"""Direction of words, and the visual order of the words of a line.

The Unicode Bidirectional Algorithm (UAX 9) for whole words: explicit embeddings and isolates are ignored, and the order
inside a word is left to the renderer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby

_STRONG = {"L": "L", "R": "R", "AL": "R"}


def word_direction(text: str) -> str:
    """L or R by the first strong character; "1" for a number, which follows the word before it; else empty."""
    classes = [unicodedata.bidirectional(character) for character in text]
    strong = next((_STRONG[c] for c in classes if c in _STRONG), "")
    return strong or ("1" if any(c in ("EN", "AN") for c in classes) else "")


def base_direction(texts: Iterable[str]) -> str:
    """L or R: direction of the first text that has one, like dir="auto"."""
    return next((direction for text in texts if (direction := word_direction(text)) in ("L", "R")), "L")


def resolve_directions(directions: Sequence[str], base: str) -> list[str]:
    """Resolve numbers and neutral words to L or R: by the word before, or by both neighbors (rules N1 and N2)."""
    result = list(directions)
    previous = base
    for i, direction in enumerate(result):
        if direction == "1":
            result[i] = previous
        previous = result[i] or previous
    start = 0
    while start < len(result):
        if result[start]:
            start += 1
            continue
        end = next((i for i in range(start, len(result)) if result[i]), len(result))
        left = result[start - 1] if start else base
        right = result[end] if end < len(result) else base
        result[start:end] = [left if left == right else base] * (end - start)
        start = end
    return result


def visual_order(directions: Sequence[str], base: str) -> list[int]:
    """Indices of a line's words from left to right; each direction is L or R."""
    order: list[int] = []
    for direction, run in groupby(range(len(directions)), key=directions.__getitem__):
        indices = list(run)
        order += indices if direction == base else indices[::-1]
    return order if base == "L" else order[::-1]
