"""Words broken into lines and set in their places, whichever way they run."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.pages.bidi import direction, resolved, visual

_NOT_FIRST = set("。，、；：？！）」』】》…ー.,;:?!)]}”’%»")
_NOT_LAST = set("（「『【《([{“‘«")


@dataclass(frozen=True)
class Atom:
    """A stretch that is drawn as one: a word or a part of one, or the space between two."""

    text: str
    width: float
    shade: float = 0.0
    tip: str = ""
    evidence: bool = False
    way: str = ""  # L, R, 1 for a number, or neither
    space: bool = False
    ends: bool = False  # the line ends here


def atoms(words: Sequence[Any], measure: Callable[[str], float]) -> list[Atom]:
    """The words of a line (viewer.words.Word) with the space between them."""
    found: list[Atom] = []
    for word in words:
        named = word.number is not None
        for text, evidence in word.parts or [(word.text, False)]:
            for piece in re.findall(r"\s+|\S+", text):
                if piece.isspace():
                    ends = "\n" in piece
                    found.append(Atom(" ", measure(" "), evidence=evidence and not ends, space=True, ends=ends))
                    continue
                clean = "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn") else c for c in piece)
                shade, tip = (word.shade, word.tip) if named and word.weight is not None else (0.0, "")
                found.append(Atom(clean, measure(clean), shade, tip, evidence, direction(clean)))
    return found


def broken(given: Sequence[Atom], room: float) -> Iterator[list[Atom]]:
    """Lines that fit the room; broken at spaces, between characters of scripts that have none, and inside what is
    wider than a line by itself."""
    line: list[Atom] = []
    width = 0.0
    for chunk in _chunks(given):
        size = sum(atom.width for atom in chunk)
        if line and width + size > room:
            yield _trimmed(line)
            line, width = [], 0.0
        for atom in chunk:
            if atom.space and not line:
                continue
            for part in _cut(atom, room) if atom.width > room else [atom]:
                if line and width + part.width > room:
                    yield _trimmed(line)
                    line, width = [], 0.0
                line.append(part)
                width += part.width
            if atom.ends:
                yield _trimmed(line)
                line, width = [], 0.0
    if line:
        yield _trimmed(line)


def placed(line: Sequence[Atom], whole: str, x: float, room: float) -> Iterator[tuple[Atom, float]]:
    """Each atom with its left edge; a text that runs from right to left begins at the right."""
    ways = resolved([atom.way for atom in line], whole)
    at = x if whole == "L" else x + room - sum(atom.width for atom in line)
    for i in visual(ways, whole):
        own = line[i].way
        yield replace(line[i], way="R" if own == "R" or (ways[i] == "R" and own == "") else "L"), at
        at += line[i].width


def _chunks(given: Sequence[Atom]) -> Iterator[list[Atom]]:
    """What may not be torn apart; a space ends a chunk and belongs to it."""
    chunk: list[Atom] = []
    for atom in given:
        if chunk and (chunk[-1].space or _between(chunk[-1], atom)):
            yield chunk
            chunk = []
        chunk.append(atom)
    if chunk:
        yield chunk


def _between(left: Atom, right: Atom) -> bool:
    """Whether a line may end between two that touch: only in scripts without spaces, and not beside a mark that
    belongs to its neighbour."""
    if right.space or left.space:
        return False
    a, b = left.text[-1], right.text[0]
    wide = unicodedata.east_asian_width(a) in "WF" or unicodedata.east_asian_width(b) in "WF"
    return wide and b not in _NOT_FIRST and a not in _NOT_LAST


def _cut(atom: Atom, room: float) -> list[Atom]:
    """A word wider than the room, in pieces; letters are taken to be of one width."""
    count = max(1, int(0.97 * len(atom.text) * room / atom.width))
    parts = [atom.text[i : i + count] for i in range(0, len(atom.text), count)]
    return [replace(atom, text=part, width=atom.width * len(part) / len(atom.text)) for part in parts]


def _trimmed(line: list[Atom]) -> list[Atom]:
    while line and line[-1].space:
        line.pop()
    return line
