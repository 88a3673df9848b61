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


class Names:
    def __init__(self, names: Iterable[str]):
        self._exact: dict[str, str] = {name: name for name in names}
        self._plain: dict[str, str] = {}
        for name in self._exact:
            self._plain.setdefault(plain(name), name)

    def __contains__(self, name: str) -> bool:
        return name in self._exact

    def spelled(self, name: str) -> str | None:
        """The name as it was read, accents and letter case aside."""
        return name if name in self._exact else self._plain.get(plain(name))

    def find(self, name: str) -> tuple[str | None, float]:
        """The person that is meant, and how alike the names are; None where nobody is."""
        if (known := self.spelled(name)) is not None:
            return known, 1.0
        key = plain(name)
        for near in get_close_matches(key, self._plain, n=3, cutoff=0.85):
            alike = _alike(key, near)
            if alike:
                return self._plain[near], alike
        return None, 0.0


def plain(name: str) -> str:
    """Letters and figures alone, small, without accents."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return " ".join(re.findall(r"\w+", bare.casefold().replace("ł", "l").replace("ø", "o")))


def _alike(a: str, b: str) -> float:
    """The least likeness of two words that stand at the same place; 0 where one is too different, or missing."""
    first, second = a.split(), b.split()
    if len(first) != len(second):
        return 0.0
    each = [1.0 if x == y else SequenceMatcher(None, x, y).ratio() for x, y in zip(first, second, strict=True)]
    same = sum(x == y for x, y in zip(first, second, strict=True))
    return min(each) if min(each) >= NEAR and (same or len(first) == 1) else 0.0
