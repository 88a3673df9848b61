"""Break words into lines and position them, for left-to-right and right-to-left text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from regard.pages.bidi import resolve_directions, visual_order, word_direction
from regard.pages.word_layout import Word

_NOT_FIRST = set("。，、；：？！）」』】》…ー.,;:?!)]}”’%»")
_NOT_LAST = set("（「『【《([{“‘«")


@dataclass(frozen=True)
class Segment:
    """Text that is drawn in one piece: a word or part of one, or the space between two.

    Attributes:
        direction: L, R, "1" for a number, or empty for neutral text.
        ends_line: The line ends after this space.
    """

    text: str
    width: float
    shade: float = 0.0
    tip: str = ""
    evidence: bool = False
    direction: str = ""
    space: bool = False
    ends_line: bool = False


def split_words(words: Sequence[Word], measure: Callable[[str], float]) -> list[Segment]:
    """Split words into segments; `measure` returns the width of a text."""
    segments: list[Segment] = []
    for word in words:
        weighted = word.number is not None and word.weight is not None
        for text, evidence in word.parts or [(word.text, False)]:
            for part in re.findall(r"\s+|\S+", text):
                if part.isspace():
                    ends_line = "\n" in part
                    segments.append(
                        Segment(" ", measure(" "), evidence=evidence and not ends_line, space=True, ends_line=ends_line)
                    )
                    continue
                clean = "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn") else c for c in part)
                shade, tip = (word.shade, word.tip) if weighted else (0.0, "")
                segments.append(Segment(clean, measure(clean), shade, tip, evidence, word_direction(clean)))
    return segments


def break_lines(segments: Sequence[Segment], max_width: float) -> Iterator[list[Segment]]:
    """Lines of at most `max_width`. They break at spaces, between characters of scripts without spaces, and inside
    words that are wider than a line."""
    line: list[Segment] = []
    width = 0.0
    for chunk in _chunks(segments):
        size = sum(segment.width for segment in chunk)
        if line and width + size > max_width:
            yield _strip_spaces(line)
            line, width = [], 0.0
        for segment in chunk:
            if segment.space and not line:
                continue
            for part in _split_wide(segment, max_width) if segment.width > max_width else [segment]:
                if line and width + part.width > max_width:
                    yield _strip_spaces(line)
                    line, width = [], 0.0
                line.append(part)
                width += part.width
            if segment.ends_line:
                yield _strip_spaces(line)
                line, width = [], 0.0
    if line:
        yield _strip_spaces(line)


def position_segments(
    line: Sequence[Segment], base: str, x: float, max_width: float
) -> Iterator[tuple[Segment, float]]:
    """Each segment, in visual order, with its left edge; a right-to-left line starts at the right."""
    directions = resolve_directions([segment.direction for segment in line], base)
    left = x if base == "L" else x + max_width - sum(segment.width for segment in line)
    for i in visual_order(directions, base):
        own = line[i].direction
        direction = "R" if own == "R" or (directions[i] == "R" and own == "") else "L"
        yield replace(line[i], direction=direction), left
        left += line[i].width


def _chunks(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Segments that must stay on one line; a chunk ends with its space."""
    chunk: list[Segment] = []
    for segment in segments:
        if chunk and (chunk[-1].space or _can_break(chunk[-1], segment)):
            yield chunk
            chunk = []
        chunk.append(segment)
    if chunk:
        yield chunk


def _can_break(left: Segment, right: Segment) -> bool:
    """Whether a line may end between two adjacent segments: in scripts without spaces, except at punctuation."""
    if right.space or left.space:
        return False
    a, b = left.text[-1], right.text[0]
    wide = unicodedata.east_asian_width(a) in "WF" or unicodedata.east_asian_width(b) in "WF"
    return wide and b not in _NOT_FIRST and a not in _NOT_LAST


def _split_wide(segment: Segment, max_width: float) -> list[Segment]:
    """Split a word that is wider than a line, as if all characters had the same width."""
    count = max(1, int(0.97 * len(segment.text) * max_width / segment.width))
    parts = [segment.text[i : i + count] for i in range(0, len(segment.text), count)]
    return [replace(segment, text=part, width=segment.width * len(part) / len(segment.text)) for part in parts]


def _strip_spaces(line: list[Segment]) -> list[Segment]:
    while line and line[-1].space:
        line.pop()
    return line
