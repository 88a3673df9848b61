"""Width of a text without a font: character widths of an average serif, and estimates for other scripts.

Another program opens the SVG with other fonts anyway; each word has the width given here.
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
ZERO_WIDTH_JOINER = "\u200d"


def estimate_width(text: str, size: float) -> float:
    """Width of a text at a font size, in the same unit."""
    return size * sum(_width(previous, character) for previous, character in zip(" " + text, text, strict=False))


@lru_cache(maxsize=8192)
def _width(previous: str, character: str) -> float:
    if previous == ZERO_WIDTH_JOINER or "\U0001f3fb" <= character <= "\U0001f3ff":  # part of the emoji before it
        return 0.0
    if character in _EM:
        return _EM[character]
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.25 if category == "So" else 1.0
    if unicodedata.bidirectional(character) == "AL":
        return 0.45
    base = unicodedata.normalize("NFD", character)[0]
    return _EM.get(base) or (0.72 if category == "Lu" else 0.55)
