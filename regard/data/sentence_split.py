"""Split a text into sentences, as character spans.

One pattern finds the places where a sentence might end; a few rules then strike out abbreviations, initials, ellipses,
numbers of list items and quoted questions. Line breaks, also in HTML, end a sentence, unless a line is only wrapped:
the line before has no mark at its end and the next goes on in lower case. Quotes, brackets, emoji and the closing tags
of bold and italic words may stand between the mark and the next sentence.
"""

from __future__ import annotations

import re

# after these a sentence never ends
_NEVER = """
    mr mrs ms dr prof messrs mme mlle gen col capt cpt cmdr lt sgt maj adm rev hon sen rep gov pres supt det insp vs ca
    approx cf e.g i.e eg ie viz fr bzw z.b d.h u.a
"""
# after these it goes on with a number or a letter: no. 5, vol. II, fig. b
_COUNT = "no nos nr vol vols fig figs eq eqs ch chs sec secs sect op pp pt pts"
# after these it ends if the next word is one that often starts a sentence
_MAYBE = """
    etc inc ltd co corp jr sr st ave blvd rd dept est al bros esq ph.d m.d b.a m.a a.m p.m am pm u.s u.k u.n jan feb mar
    apr jun jul aug sep sept oct nov dec mon tue wed thu fri min max sq oz lb lbs vers usw mt ft ed
    eds trans dir feat hr
"""
_STARTERS = """
    the a an this that these those it its he she they we you i i'm i've i'd my his her their our your there here what
    when where who why how but and so if in on at as for with after before while although though however then now not
    no one some all both each most many is was are did do does can could would should will maybe perhaps also even just
    yet unfortunately fortunately overall finally still to from by once only since
"""
_NEVER, _COUNT, _MAYBE, _STARTERS = (frozenset(words.split()) for words in (_NEVER, _COUNT, _MAYBE, _STARTERS))

_CLOSERS = "\"'”’»›)\\]}*"
_INLINE = r"(?i:b|i|em|strong|u|span)\b[^<>]{0,100}>"
# pictures, and what varies and joins them
_EMOJI = "\u200d\u20e3\u2600-\u27bf\u2b00-\u2bff\ufe0e\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f"
_FULL = "。！？｡．؟۔।॥።։။"
_OPENERS = "\"'“‘«‹(\\[{¿¡*_"
# One set of rare characters first, for which Python's search is quick; a run of them is looked at only from its start,
# so that a search is linear in the text.
_CANDIDATE = re.compile(
    rf"""
    [<\n.!?…{_FULL}]
    (?: (?<=<) (?P<html> /?(?i:br|p|div|li|tr|h[1-6])\b[^<>]{{0,200}}> \s*+ (?: </?(?i:br|p)\b[^<>]{{0,200}}> \s*+ )*+ )
      | (?<=\n) (?P<line> \s*+ )
      | (?<=[{_FULL}]) (?P<full> [{_FULL}]*+
        (?P<shut> (?: [」』）】》{_CLOSERS}] | </{_INLINE} )*+ ) [{_EMOJI}]*+ \s*+ )
      | (?<=[.!?…]) (?<! [.!?…]{{2}} ) (?P<end> [.!?…]*+ ) (?P<close> (?: [{_CLOSERS}] | </{_INLINE} )*+ )
        (?: [{_EMOJI}{_CLOSERS}] | </{_INLINE} )*+
        (?: (?P<space> [^\S\n]++ ) | (?= [A-Z] | <{_INLINE} ) )
    )
    """,
    re.VERBOSE,
)
_NEXT = re.compile(rf"(?:[{_OPENERS}\s]|</?{_INLINE})*+(?P<dash>[-–—]*+)\s*+(?P<word>[^\W_]+(?:['’][^\W_]+)?)?")
_BREAK = re.compile(r"(?:<br\b[^<>]*>\s*+)++", re.IGNORECASE)
_BRACKETS = "\"'“‘«‹([{*_\n\t>-–—/"
_INITIAL = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")
_TAG = re.compile(r"<[^<>]*>")
_ROMAN = re.compile(r"(?=.)(?:X[LC]|L?X{0,3})(?:I[XV]|V?I{0,3})")
_GLUED = re.compile(r"[^\W\d_]{2}[.!?…]+$")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Spans (start, end) of the sentences, in order, without the space around them; together they hold all else."""
    spans: list[tuple[int, int]] = []
    start, lower, size = 0, text.islower(), len(text)
    for match in _CANDIDATE.finditer(text):
        kind, stop = match.lastgroup, match.end()
        if kind == "line":
            ends = _ends_line(text, match)
        elif kind == "html":
            ends = not _wrapped(text, match)
        else:
            ends = not _asked(text, match) if kind == "full" else _ends(text, start, match, lower)
        if ends and stop < size:
            start = _add(spans, text, start, stop)
    _add(spans, text, start, size)
    if not spans and text:  # nothing but breaks, or nothing but space
        body = text.strip() or text
        start = text.index(body)
        return [(start, start + len(body))]
    return spans


def _add(spans: list[tuple[int, int]], text: str, start: int, stop: int) -> int:
    """Put a sentence down and say where the next one starts; a piece of mere line breaks joins its neighbour."""
    piece = text[start:stop]
    body = piece.strip()
    if not body:
        return stop
    begin = start + piece.index(body[0])
    # a break at the very top opens the first sentence, any other closes the one before
    if spans and (_bare(body) or (len(spans) == 1 and _bare(text[slice(*spans[0])]))):
        begin = spans.pop()[0]
    spans.append((begin, start + len(piece.rstrip())))
    return stop


def _bare(piece: str) -> bool:
    """Whether a piece is nothing but tags."""
    return piece[0] == "<" and not _TAG.sub("", piece).strip()


def _ends_line(text: str, match: re.Match[str]) -> bool:
    """A blank line ends a sentence; a single line break does unless the next line goes on in lower case."""
    if text.count("\n", match.start(), match.end()) > 1:
        return True
    following = text[match.end() : match.end() + 1]
    return not following.islower() and text[match.start() - 1 : match.start()] not in (",", ";", "-")


def _wrapped(text: str, match: re.Match[str]) -> bool:
    """Whether a break stands in the middle of a sentence: works of art<br />that deserve it."""
    before = text[max(0, match.start() - 8) : match.start()].rstrip()[-1:]
    goes_on = before == "," or before.isalnum()
    return goes_on and text[match.end() : match.end() + 1].islower() and bool(_BREAK.fullmatch(match[0]))


def _asked(text: str, match: re.Match[str]) -> bool:
    """Whether a quoted question goes on, in scripts without spaces and case: 「好吗？」他问。"""
    mark, stop = text[match.start("shut") - 1], match.end()
    return mark in "？！" and match.start("shut") < match.end("shut") == stop and text[stop : stop + 1].isalpha()


def _opens(text: str, start: int, stop: int) -> bool:
    """Whether nothing but tags and space stands there."""
    return stop - start < 200 and not _TAG.sub("", text[start:stop]).strip()


def _counted(key: str, word: str) -> bool:
    """Whether a word says which: no. 5, vol. II, fig. b; but "No. I left." and "One sec. A man came." """
    if word in ("a", "A", "i", "I") and key in ("no", "sec"):
        return False
    alike = word.isupper() or word.islower()
    return word[:1].isdigit() or len(word) == 1 or (alike and bool(_ROMAN.fullmatch(word.upper())))


def _ends(text: str, start: int, match: re.Match[str], lower: bool) -> bool:
    mark, close = text[match.start() : match.end("end")], match["close"]
    after = _NEXT.match(text, match.end())
    word = (after and after["word"]) or ""
    dash = after and after["dash"]
    if not match["space"]:  # end.Next, a slip of the pen, but not Amazon.Com, U.S.A or 3.x
        before = text[max(start, match.start() - 2) : match.end("end")]
        opens = word[:1].isupper() and (len(word) > 3 or word.lower() in _STARTERS)
        site = text[max(start, match.start() - 3) : match.start()].lower() == "www"
        return opens and before[0].islower() and bool(_GLUED.match(before)) and not site
    small = word[:1].islower()
    if dash and small:
        return False
    if mark[-1] in "!?" and "." not in mark:
        return not (small and not lower and bool(close))  # "Really?" he said
    if len(mark) > 1 or mark == "…":  # an ellipsis goes on in lower case
        i = word == "I" or word.startswith(("I'", "I’"))
        return lower or not (small or (i and len(mark) < 4))  # I mean... I left; but: that was it.... I left
    token = text[max(start, match.start() - 30) : match.start()].rpartition(" ")[2]
    token = token.rpartition(">")[2].lstrip(_BRACKETS)
    if token.isdigit() and len(token) < 3 and _opens(text, start, match.start() - len(token)):
        return False  # "1. First" at the start
    key = token.lower()
    if key in _NEVER or (key in _COUNT and _counted(key, word)):
        return False
    if key in _MAYBE or (_INITIAL.fullmatch(token) and token != "I"):
        return not word or (word.lower() in _STARTERS and (not small or lower))
    if small and not lower:
        return bool(close) is False and len(token) > 3 and token.isalpha()
    return True
