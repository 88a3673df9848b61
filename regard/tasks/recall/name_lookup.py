"""Find a person by name: as written, then without accents and letter case, then nearly so.

A name that is nearly known is taken for the known one only where each of its words is nearly the same; two known
surnames of other people do not make a person.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

NEAR = 0.8
"""How alike each word of two names must be: 2 · common letters / all letters."""


_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"})
"""Those that Unicode does not take for a letter with a mark."""


class Names:
    def __init__(self, names: Iterable[str]):
        self._exact = dict.fromkeys(names)
        self._plain: dict[str, list[str]] = {}
        for name in self._exact:
            self._plain.setdefault(plain(name), []).append(name)

    def __contains__(self, name: str) -> bool:
        return name in self._exact

    def spelled(self, name: str) -> str | None:
        """The name as it was read, accents and letter case aside."""
        return name if name in self._exact else next(iter(self._plain.get(plain(name), [])), None)

    def meant(self, name: str) -> list[tuple[str, float]]:
        """All who may be meant, and how alike their names are, the likeliest first."""
        if name in self._exact:
            return [(name, 1.0)]
        key = plain(name)
        if key in self._plain:
            return [(person, 1.0) for person in self._plain[key]]
        close = [(near, _alike(key, near)) for near in get_close_matches(key, self._plain, n=5, cutoff=0.85)]
        close.sort(key=lambda pair: -pair[1])
        return [(person, alike) for near, alike in close if alike for person in self._plain[near]]


def plain(name: str) -> str:
    """Letters and figures alone, small, without accents."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return " ".join(re.findall(r"\w+", bare.casefold().translate(_LETTERS)))


def _alike(a: str, b: str) -> float:
    """The least likeness of two words that stand at the same place; 0 where one is too different, or missing."""
    first, second = a.split(), b.split()
    if len(first) != len(second):
        return 0.0
    each = [1.0 if x == y else SequenceMatcher(None, x, y).ratio() for x, y in zip(first, second, strict=True)]
    same = sum(x == y for x, y in zip(first, second, strict=True))
    return min(each) if min(each) >= NEAR and (same or len(first) == 1) else 0.0
