"""From token weights to a readable text: tokens joined to words, words grouped by sentence.

The weight of a word is the sum of its tokens, so that words and special tokens together still sum to one. `<br />` is a
line break: it is not drawn as a word, and its weight is shown next to the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

MAX_HOP_TOKENS = 20_000  # hops times tokens that are drawn as texts side by side
LINE_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_LINE_BREAKS = re.compile(r"<br ?/?>(?:\s*+<br ?/?>)*+", re.IGNORECASE)


@dataclass
class Word:
    """A word with its weight, or the text between two words (`number` is None).

    Attributes:
        shade: Weight divided by the largest weight of a word, at most 1.
        within_sentence: Weight in its own sentence, for models with sentence weights.
        within_shade: The same divided by the largest of that sentence.
        tokens: Indices of its tokens.
        parts: (text, is it evidence).
        unread: The text was truncated before this word.
    """

    start: int
    end: int
    text: str
    number: int | None = None
    weight: float | None = None
    shade: float = 0.0
    within_sentence: float | None = None
    within_shade: float = 0.0
    tokens: list[int] = field(default_factory=list)
    parts: list[tuple[str, bool]] = field(default_factory=list)
    tip: str = ""
    unread: bool = False


@dataclass
class Line:
    """A sentence, or the full text if there are no sentences; `words` includes the text between the words."""

    start: int
    sentence: int | None = None
    weight: float | None = None
    shade: float = 0.0
    words: list[Word] = field(default_factory=list)


@dataclass
class Layout:
    """Lines of words; `others` are special tokens, blanks and line breaks; `peak` is the largest weight of a word."""

    lines: list[Line]
    others: list[Word]
    peak: float


def layout(look: dict[str, Any]) -> Layout:
    """Lay out the text of a checked look."""
    words, others = _join_tokens(look)
    peak = max((word.weight or 0.0 for word in words), default=0.0)
    for word in [*words, *others]:
        word.shade = min(1.0, (word.weight or 0.0) / peak) if peak else 0.0
    lines = _sentence_lines(look)
    starts = [line.start for line in lines]
    for word in words:
        lines[max(0, bisect_right(starts, word.start) - 1)].words.append(word)
    for line in lines:
        _weigh_within_sentence(line, look["within_sentence"])
        for word in line.words:
            word.tip = _tooltip(word, line, look["tokens"], look["weights"]) + _score_change(word, look)
    for word in others:
        word.tip = _tooltip(word, None, look["tokens"], look["weights"])
    _fill_gaps(lines, look["text"], words[-1].end if words else 0)
    for word in (word for line in lines for word in line.words):
        word.parts = [(LINE_BREAK.sub("\n", text), is_evidence) for text, is_evidence in _split_evidence(word, look)]
        word.text = LINE_BREAK.sub("\n", word.text)
    return Layout([line for line in lines if line.words], others, peak)


def hop_layouts(look: dict[str, Any]) -> list[Layout]:
    """The text once for each hop, with its weights; empty if that would be too long."""
    hops = (look["hops"] or {}).get("weights") or []
    if len(hops) * len(look["tokens"]) > MAX_HOP_TOKENS:
        return []
    base = {**look, "sentence_weights": None, "within_sentence": None, "scores_without": None}
    layouts = [layout({**base, "weights": weights}) for weights in hops]
    for word in (word for view in layouts for line in view.lines for word in line.words if word.unread):
        word.text, word.parts = " …", [(" …", False)]  # truncated text is shown once, not for every hop
    return layouts


def uniform_evidence_fraction(look: dict[str, Any]) -> float | None:
    """Fraction of the tokens that are evidence: what uniform attention would give it."""
    spans, tokens = look["evidence"], look["tokens"]
    if not spans or not tokens:
        return None
    hits = sum(not t["special"] and any(t["start"] < end and start < t["end"] for start, end in spans) for t in tokens)
    return hits / len(tokens)


def _word_groups(look: dict[str, Any]) -> list[list[int]]:
    """Indices of the tokens of each word; a special token is alone, and a sentence ends every word."""
    sentence_starts = {start for start, _ in look["sentences"]}
    groups: list[list[int]] = []
    for i, token in enumerate(look["tokens"]):
        previous = look["tokens"][i - 1] if i else None
        continues = (
            previous is not None
            and i not in sentence_starts
            and not (token["special"] or previous["special"])
            and token["word"] is not None
            and token["word"] == previous["word"]
        )
        if continues:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _join_tokens(look: dict[str, Any]) -> tuple[list[Word], list[Word]]:
    """Words of the text, and other tokens with weight."""
    text, tokens, weights = look["text"], look["tokens"], look["weights"]
    words: list[Word] = []
    others: list[Word] = []
    breaks = [match.span() for match in _LINE_BREAKS.finditer(text)]
    break_word: Word | None = None
    for group in _word_groups(look):
        span = _strip(text, tokens[group[0]]["start"], max(tokens[i]["end"] for i in group))
        start, end = _strip(text, *_strip_breaks(breaks, *span))
        weight = None if weights is None else float(sum(weights[i] for i in group))
        covered = words[-1].end if words else 0
        special = tokens[group[0]]["special"]
        if start == end and span[0] < span[1] and not special:
            if break_word is None:
                break_word = Word(*span, "<br />", weight=weight, parts=[("<br />", False)])
                others.append(break_word)
            elif weight is not None:
                break_word.weight = (break_word.weight or 0.0) + weight
            break_word.tokens += group
        elif special or start == end:
            label = "".join(tokens[i]["text"] for i in group).strip() or "␣"
            others.append(Word(start, end, label, weight=weight, tokens=group, parts=[(label, False)]))
        elif words and end <= covered:  # the bytes of one character have the same span
            words[-1].tokens += group
            words[-1].weight = None if weight is None else (words[-1].weight or 0.0) + weight
        else:
            start = max(start, covered)
            words.append(Word(start, end, text[start:end], len(words), weight, tokens=group))
    return words, others


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without white space at its ends; byte-level tokens include the space before them."""
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return start, start + len(text[start:end].rstrip())


def _strip_breaks(breaks: list[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """A span without line breaks at its ends: some tokenizers split film!<br /> into film!<br and />."""
    index = bisect_right(breaks, start, key=lambda span: span[1])
    break_start, break_end = breaks[index] if index < len(breaks) else (end, end)
    if break_start <= start:
        return min(break_end, end), end
    return start, break_start if break_start < end <= break_end else end


def _sentence_lines(look: dict[str, Any]) -> list[Line]:
    tokens, weights = look["tokens"], look["sentence_weights"]
    peak = max(weights or [0.0])
    lines: list[Line] = []
    for number, (start, end) in enumerate(look["sentences"]):
        starts = [t["start"] for t in tokens[start:end] if not t["special"] and t["start"] < t["end"]]
        if starts:
            weight = None if weights is None else float(weights[number])
            lines.append(Line(min(starts), number, weight, (weight or 0.0) / peak if peak else 0.0))
    lines.sort(key=lambda line: line.start)
    return lines or [Line(0)]


def _fill_gaps(lines: list[Line], text: str, covered: int) -> None:
    """Add the text between the words, and mark text after the last token as unread."""
    for number, line in enumerate(lines):
        cursor = line.start if number else 0
        stop = lines[number + 1].start if number + 1 < len(lines) else len(text)
        words: list[Word] = []
        for word in line.words:
            if word.start > cursor:
                words.append(Word(cursor, word.start, text[cursor : word.start]))
            words.append(word)
            cursor = word.end
        if stop > cursor:
            unread = cursor >= covered and bool(LINE_BREAK.sub("", text[cursor:stop]).strip())
            words.append(Word(cursor, stop, text[cursor:stop], unread=unread))
        line.words = words


def _split_evidence(word: Word, look: dict[str, Any]) -> list[tuple[str, bool]]:
    """Split a word where evidence starts or ends inside it."""
    evidence = look["evidence"] or []
    cuts = {word.start, word.end, *(cut for span in evidence for cut in span if word.start < cut < word.end)}
    return [
        (word.text[a - word.start : b - word.start], any(start <= a and b <= end for start, end in evidence))
        for a, b in pairwise(sorted(cuts))
    ]


def _weigh_within_sentence(line: Line, weights: list[float] | None) -> None:
    if weights is None:
        return
    for word in line.words:
        word.within_sentence = float(sum(weights[i] for i in word.tokens))
    peak = max((word.within_sentence or 0.0 for word in line.words), default=0.0)
    for word in line.words:
        word.within_shade = (word.within_sentence or 0.0) / peak if peak else 0.0


def _score_change(word: Word, look: dict[str, Any]) -> str:
    """The score without the word, for its tooltip."""
    score = None if look["scores_without"] is None else look["scores_without"][word.tokens[0]]
    if score is None or look["score"] is None:
        return ""
    return f"\nwithout it {look['score_label'] or 'the score'} {look['score']:.4g} → {score:.4g}"


def _tooltip(word: Word, line: Line | None, tokens: list[Any], weights: list[float] | None) -> str:
    if weights is None or word.weight is None:
        return ""
    tip = f"{word.text}  {word.weight:.4g}"
    if len(word.tokens) > 1:
        tip += "  =  " + " + ".join(f"{tokens[i]['text'].strip()} {weights[i]:.4g}" for i in word.tokens)
    if line is not None and line.weight is not None and word.within_sentence is not None:
        tip += f"  =  {word.within_sentence:.4g} in its sentence × {line.weight:.4g} of the sentence"
    return tip
