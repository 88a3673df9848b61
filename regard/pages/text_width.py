"""How wide a text is, without a font: the widths of a middling serif, and what is known of other scripts.

A drawing that is opened elsewhere meets other fonts anyway; each word in it is held to the width given here.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Hundredths of an em for the characters from space to ~: the mean of DejaVu Serif and Liberation Serif.
_ASCII = (
    "28 37 43 67 57 89 83 23 36 36 50 70 28 34 28 31 57 57 57 57 57 57 57 57 57 57 31 31 70 70 70 49 96 72 70 72 76 67 "
    "62 76 80 36 40 73 64 96 80 77 61 77 71 62 64 78 72 99 72 69 65 36 31 36 65 50 42 52 57 50 57 52 35 57 57 30 29 55 "
    "30 86 57 55 57 57 41 45 34 57 53 79 53 53 49 56 27 56 69"
)
_EM = {chr(32 + i): int(width) / 100 for i, width in enumerate(_ASCII.split())}
JOINER = "\u200d"


def estimated(text: str, size: float) -> float:
    """The width of a text at a size, in the same unit."""
    return size * sum(_width(before, letter) for before, letter in zip(" " + text, text, strict=False))


@lru_cache(maxsize=8192)
def _width(before: str, letter: str) -> float:
    if before == JOINER or "\U0001f3fb" <= letter <= "\U0001f3ff":  # joined to one picture, or the tone of its skin
        return 0.0
    if letter in _EM:
        return _EM[letter]
    kind = unicodedata.category(letter)
    if kind in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.25 if kind == "So" else 1.0
    if unicodedata.bidirectional(letter) == "AL":
        return 0.45
    base = unicodedata.normalize("NFD", letter)[0]
    return _EM.get(base) or (0.72 if kind == "Lu" else 0.55)
