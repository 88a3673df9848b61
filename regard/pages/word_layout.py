"""From token weights to a text one can read: word pieces joined to words, words set in their sentences.

The weight of a word is the sum of its pieces, so that the words (with the special tokens) still add up to one. What is
written <br /> is a line break: it is not drawn as a word, and its weight stands beside the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

MOST_HOP_TOKENS = 20_000  # hops times tokens that are drawn as texts side by side
BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_BREAKS = re.compile(r"<br ?/?>(?:\s*+<br ?/?>)*+", re.IGNORECASE)


@dataclass
class Word:
    """A stretch of text: a word with a weight, or (number None) what stands between words."""

    start: int
    end: int
    text: str
    number: int | None = None
    weight: float | None = None
    shade: float = 0.0  # weight / the largest weight of a word, at most 1
    within: float | None = None  # its weight in its own sentence, where sentences have weights too
    within_shade: float = 0.0  # the same / the largest in that sentence
    tokens: list[int] = field(default_factory=list)
    parts: list[tuple[str, bool]] = field(default_factory=list)  # (text, is it evidence)
    tip: str = ""
    unread: bool = False


@dataclass
class Line:
    """A sentence (or the whole text, where no sentences are known)."""

    start: int
    sentence: int | None = None
    weight: float | None = None
    shade: float = 0.0
    words: list[Word] = field(default_factory=list)  # words and what stands between them, in order


@dataclass
class Layout:
    lines: list[Line]
    others: list[Word]  # special tokens, blank ones and line breaks: they carry weight but are no words of the text
    peak: float  # the weight of the strongest word


def layout(look: dict[str, Any]) -> Layout:
    """Lines of words for a checked look."""
    words, others = _join(look)
    peak = max((word.weight or 0.0 for word in words), default=0.0)
    for word in [*words, *others]:
        word.shade = min(1.0, (word.weight or 0.0) / peak) if peak else 0.0
    lines = _lines(look)
    starts = [line.start for line in lines]
    for word in words:
        lines[max(0, bisect_right(starts, word.start) - 1)].words.append(word)
    for line in lines:
        _within(line, look["within"])
        for word in line.words:
            word.tip = _tip(word, line, look["tokens"], look["weights"]) + _hidden(word, look)
    for word in others:
        word.tip = _tip(word, None, look["tokens"], look["weights"])
    _fill(lines, look["text"], words[-1].end if words else 0)
    for word in (word for line in lines for word in line.words):
        word.parts = [(BREAK.sub("\n", part), own) for part, own in _parts(word, look["evidence"] or [])]
        word.text = BREAK.sub("\n", word.text)
    return Layout([line for line in lines if line.words], others, peak)


def hop_layouts(look: dict[str, Any]) -> list[Layout]:
    """The same text once for each hop, shaded by what that hop regards; none where they would fill a book."""
    hops = (look["hops"] or {}).get("weights") or []
    if len(hops) * len(look["tokens"]) > MOST_HOP_TOKENS:
        return []
    plain = {**look, "sentence_weights": None, "within": None, "without": None}
    found = [layout({**plain, "weights": weights}) for weights in hops]
    for word in (word for view in found for line in view.lines for word in line.words if word.unread):
        word.text, word.parts = " …", [(" …", False)]  # once is enough for what was not read
    return found


def even_share(look: dict[str, Any]) -> float | None:
    """The share of the tokens that touch the evidence: what attention spread evenly would put there."""
    spans, tokens = look["evidence"], look["tokens"]
    if not spans or not tokens:
        return None
    hits = sum(not t["special"] and any(t["start"] < end and start < t["end"] for start, end in spans) for t in tokens)
    return hits / len(tokens)


def _groups(look: dict[str, Any]) -> list[list[int]]:
    """Runs of tokens that are pieces of one word; special tokens stand alone; a sentence ends every run."""
    opening = {first for first, _ in look["sentences"]}
    groups: list[list[int]] = []
    for number, token in enumerate(look["tokens"]):
        before = look["tokens"][number - 1] if number else None
        joins = (
            before is not None
            and number not in opening
            and not (token["special"] or before["special"])
            and token["word"] is not None
            and token["word"] == before["word"]
        )
        if joins:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _join(look: dict[str, Any]) -> tuple[list[Word], list[Word]]:
    text, tokens, weights = look["text"], look["tokens"], look["weights"]
    words: list[Word] = []
    others: list[Word] = []
    breaks = [found.span() for found in _BREAKS.finditer(text)]
    broken: Word | None = None
    for group in _groups(look):
        whole = _trimmed(text, tokens[group[0]]["start"], max(tokens[i]["end"] for i in group))
        start, end = _trimmed(text, *_beside(breaks, *whole))
        weight = None if weights is None else float(sum(weights[i] for i in group))
        read = words[-1].end if words else 0
        special = tokens[group[0]]["special"]
        if start == end and whole[0] < whole[1] and not special:
            if broken is None:
                broken = Word(*whole, "<br />", weight=weight, parts=[("<br />", False)])
                others.append(broken)
            elif weight is not None:
                broken.weight = (broken.weight or 0.0) + weight
            broken.tokens += group
        elif special or start == end:
            label = "".join(tokens[i]["text"] for i in group).strip() or "␣"
            others.append(Word(start, end, label, weight=weight, tokens=group, parts=[(label, False)]))
        elif words and end <= read:  # the bytes of one character share its span
            words[-1].tokens += group
            words[-1].weight = None if weight is None else (words[-1].weight or 0.0) + weight
        else:
            start = max(start, read)
            words.append(Word(start, end, text[start:end], len(words), weight, tokens=group))
    return words, others


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the space at its edges; byte-level pieces carry the space before them."""
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return start, start + len(text[start:end].rstrip())


def _beside(breaks: list[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """A span without the line breaks at its edges: some tokenizers cut film!<br /> into film!<br and />."""
    at = bisect_right(breaks, start, key=lambda one: one[1])
    first, last = breaks[at] if at < len(breaks) else (end, end)
    if first <= start:
        return min(last, end), end
    return start, first if first < end <= last else end


def _lines(look: dict[str, Any]) -> list[Line]:
    tokens, weights = look["tokens"], look["sentence_weights"]
    peak = max(weights or [0.0])
    lines: list[Line] = []
    for number, (first, end) in enumerate(look["sentences"]):
        starts = [t["start"] for t in tokens[first:end] if not t["special"] and t["start"] < t["end"]]
        if starts:
            weight = None if weights is None else float(weights[number])
            lines.append(Line(min(starts), number, weight, (weight or 0.0) / peak if peak else 0.0))
    lines.sort(key=lambda line: line.start)
    return lines or [Line(0)]


def _fill(lines: list[Line], text: str, read: int) -> None:
    """Put what stands between the words into the lines, and mark what no token covers as unread."""
    for number, line in enumerate(lines):
        cursor = line.start if number else 0
        stop = lines[number + 1].start if number + 1 < len(lines) else len(text)
        filled: list[Word] = []
        for word in line.words:
            if word.start > cursor:
                filled.append(Word(cursor, word.start, text[cursor : word.start]))
            filled.append(word)
            cursor = word.end
        if stop > cursor:
            unread = cursor >= read and bool(BREAK.sub("", text[cursor:stop]).strip())
            filled.append(Word(cursor, stop, text[cursor:stop], unread=unread))
        line.words = filled


def _parts(word: Word, evidence: list[Any]) -> list[tuple[str, bool]]:
    """The word cut where evidence begins or ends inside it."""
    cuts = {word.start, word.end, *(cut for span in evidence for cut in span if word.start < cut < word.end)}
    edges = sorted(cuts)
    return [
        (word.text[a - word.start : b - word.start], any(start <= a and b <= end for start, end in evidence))
        for a, b in pairwise(edges)
    ]


def _within(line: Line, weights: list[float] | None) -> None:
    """What the words of a sentence weigh among each other."""
    if weights is None:
        return
    for word in line.words:
        word.within = float(sum(weights[i] for i in word.tokens))
    peak = max((word.within or 0.0 for word in line.words), default=0.0)
    for word in line.words:
        word.within_shade = (word.within or 0.0) / peak if peak else 0.0


def _hidden(word: Word, look: dict[str, Any]) -> str:
    """What is answered without the word."""
    after = None if look["without"] is None else look["without"][word.tokens[0]]
    if after is None or look["answer"] is None:
        return ""
    return f"\nwithout it {look['asked'] or 'the answer'} {look['answer']:.4g} → {after:.4g}"


def _tip(word: Word, line: Line | None, tokens: list[Any], weights: list[float] | None) -> str:
    if weights is None or word.weight is None:
        return ""
    said = f"{word.text}  {word.weight:.4g}"
    if len(word.tokens) > 1:
        said += "  =  " + " + ".join(f"{tokens[i]['text'].strip()} {weights[i]:.4g}" for i in word.tokens)
    if line is not None and line.weight is not None and word.within is not None:
        said += f"  =  {word.within:.4g} in its sentence × {line.weight:.4g} of the sentence"
    return said
