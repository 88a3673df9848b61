"""Find a person by name: exactly, then ignoring accents and letter case, then approximately.

An approximate match requires that each word of the name is similar. Two known names of different people do not make a
match.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

MIN_WORD_SIMILARITY = 0.8
"""Minimum similarity of each word: 2 · common letters / all letters."""


_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"})
"""Letters that Unicode does not decompose."""


class NameIndex:
    """Looks names up in a list of known names."""

    def __init__(self, names: Iterable[str]):
        self._exact = dict.fromkeys(names)
        self._by_key: dict[str, list[str]] = {}
        for name in self._exact:
            self._by_key.setdefault(normalize_name(name), []).append(name)

    def __contains__(self, name: str) -> bool:
        return name in self._exact

    def find_spelling(self, name: str) -> str | None:
        """Return the known name that equals `name` up to accents and letter case, or None."""
        return name if name in self._exact else next(iter(self._by_key.get(normalize_name(name), [])), None)

    def find_candidates(self, name: str) -> list[tuple[str, float]]:
        """Return the known names that may be meant, with their similarity, most similar first."""
        if name in self._exact:
            return [(name, 1.0)]
        key = normalize_name(name)
        if key in self._by_key:
            return [(person, 1.0) for person in self._by_key[key]]
        matches = get_close_matches(key, self._by_key, n=5, cutoff=0.85)
        scored = [(match, _word_similarity(key, match)) for match in matches]
        scored.sort(key=lambda pair: -pair[1])
        return [(person, similarity) for match, similarity in scored if similarity for person in self._by_key[match]]


def normalize_name(name: str) -> str:
    """Return the lowercase letters and digits of a name, without accents."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return " ".join(re.findall(r"\w+", letters.casefold().translate(_LETTERS)))


def _word_similarity(a: str, b: str) -> float:
    """Return the minimum similarity of corresponding words; 0 if a word is missing or too different."""
    first, second = a.split(), b.split()
    if len(first) != len(second):
        return 0.0
    pairs = list(zip(first, second, strict=True))
    lowest = min(1.0 if x == y else SequenceMatcher(None, x, y).ratio() for x, y in pairs)
    has_equal_word = any(x == y for x, y in pairs)
    return lowest if lowest >= MIN_WORD_SIMILARITY and (has_equal_word or len(pairs) == 1) else 0.0
