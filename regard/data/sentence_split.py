"""Split a text into sentences, as character spans.

A regular expression finds the places where a sentence may end. A few rules then exclude abbreviations, initials,
ellipses, list numbers and quoted questions. Line breaks, also in HTML, end a sentence, except where a line is only
wrapped: the line has no final punctuation and the next one continues in lower case. Quotes, brackets, emoji and closing
tags of bold and italic text may be between the punctuation and the next sentence.
"""

from __future__ import annotations

import re

# a sentence never ends after these
_NEVER = """
    mr mrs ms dr prof messrs mme mlle gen col capt cpt cmdr lt sgt maj adm rev hon sen rep gov pres supt det insp vs ca
    approx cf e.g i.e eg ie viz fr bzw z.b d.h u.a
"""
# a sentence does not end between these and a number or letter: no. 5, vol. II, fig. b
_COUNT = "no nos nr vol vols fig figs eq eqs ch chs sec secs sect op pp pt pts"
# a sentence ends after these if the next word often starts a sentence
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
# emoji, with variation selectors and joiners
_EMOJI = "\u200d\u20e3\u2600-\u27bf\u2b00-\u2bff\ufe0e\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f"
_FULL = "。！？｡．؟۔।॥።։။"
_OPENERS = "\"'“‘«‹(\\[{¿¡*_"
# The pattern starts with one set of rare characters, because Python searches for it quickly. A run of them is matched
# only from its start, so that the search takes linear time.
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
    """Return the character spans (start, end) of the sentences, without surrounding whitespace."""
    spans: list[tuple[int, int]] = []
    start, lower, size = 0, text.islower(), len(text)
    for match in _CANDIDATE.finditer(text):
        group, stop = match.lastgroup, match.end()
        if group == "line":
            ends = _line_break_ends_sentence(text, match)
        elif group == "html":
            ends = not _is_wrapped_line(text, match)
        else:
            ends = (
                not _is_quoted_question(text, match) if group == "full" else _ends_sentence(text, start, match, lower)
            )
        if ends and stop < size:
            start = _add_span(spans, text, start, stop)
    _add_span(spans, text, start, size)
    if not spans and text:  # only line breaks or whitespace
        body = text.strip() or text
        start = text.index(body)
        return [(start, start + len(body))]
    return spans


def _add_span(spans: list[tuple[int, int]], text: str, start: int, stop: int) -> int:
    """Append a span and return where the next sentence starts. A piece that is only tags joins its neighbor."""
    piece = text[start:stop]
    body = piece.strip()
    if not body:
        return stop
    span_start = start + piece.index(body[0])
    # a line break at the start of the text belongs to the first sentence, others to the sentence before
    if spans and (_is_only_tags(body) or (len(spans) == 1 and _is_only_tags(text[slice(*spans[0])]))):
        span_start = spans.pop()[0]
    spans.append((span_start, start + len(piece.rstrip())))
    return stop


def _is_only_tags(piece: str) -> bool:
    """Return whether a piece contains only tags."""
    return piece[0] == "<" and not _TAG.sub("", piece).strip()


def _line_break_ends_sentence(text: str, match: re.Match[str]) -> bool:
    """A blank line ends a sentence. A single line break does so unless the next line continues in lower case."""
    if text.count("\n", match.start(), match.end()) > 1:
        return True
    next_character = text[match.end() : match.end() + 1]
    return not next_character.islower() and text[match.start() - 1 : match.start()] not in (",", ";", "-")


def _is_wrapped_line(text: str, match: re.Match[str]) -> bool:
    """Return whether a line break is within a sentence: works of art<br />that deserve it."""
    last_character = text[max(0, match.start() - 8) : match.start()].rstrip()[-1:]
    is_incomplete = last_character == "," or last_character.isalnum()
    return is_incomplete and text[match.end() : match.end() + 1].islower() and bool(_BREAK.fullmatch(match[0]))


def _is_quoted_question(text: str, match: re.Match[str]) -> bool:
    """Return whether a sentence continues after a quoted question, in scripts without spaces: 「好吗？」他问。"""
    punctuation, stop = text[match.start("shut") - 1], match.end()
    return punctuation in "？！" and match.start("shut") < match.end("shut") == stop and text[stop : stop + 1].isalpha()


def _has_only_tags(text: str, start: int, stop: int) -> bool:
    """Return whether a range contains only tags and whitespace."""
    return stop - start < 200 and not _TAG.sub("", text[start:stop]).strip()


def _is_numbering(key: str, word: str) -> bool:
    """Return whether a word numbers `key`: no. 5, vol. II, fig. b; but not "No. I left." or "One sec. A man"."""
    if word in ("a", "A", "i", "I") and key in ("no", "sec"):
        return False
    same_case = word.isupper() or word.islower()
    return word[:1].isdigit() or len(word) == 1 or (same_case and bool(_ROMAN.fullmatch(word.upper())))


def _ends_sentence(text: str, start: int, match: re.Match[str], lower: bool) -> bool:
    punctuation, close = text[match.start() : match.end("end")], match["close"]
    next_match = _NEXT.match(text, match.end())
    word = (next_match and next_match["word"]) or ""
    dash = next_match and next_match["dash"]
    if not match["space"]:  # a missing space (end.Next), but not Amazon.Com, U.S.A or 3.x
        before = text[max(start, match.start() - 2) : match.end("end")]
        is_start = word[:1].isupper() and (len(word) > 3 or word.lower() in _STARTERS)
        is_url = text[max(start, match.start() - 3) : match.start()].lower() == "www"
        return is_start and before[0].islower() and bool(_GLUED.match(before)) and not is_url
    is_lower = word[:1].islower()
    if dash and is_lower:
        return False
    if punctuation[-1] in "!?" and "." not in punctuation:
        return not (is_lower and not lower and bool(close))  # "Really?" he said
    if len(punctuation) > 1 or punctuation == "…":  # after an ellipsis a sentence continues in lower case
        is_i = word == "I" or word.startswith(("I'", "I’"))
        return lower or not (
            is_lower or (is_i and len(punctuation) < 4)
        )  # I mean... I left; but: that was it.... I left
    token = text[max(start, match.start() - 30) : match.start()].rpartition(" ")[2]
    token = token.rpartition(">")[2].lstrip(_BRACKETS)
    if token.isdigit() and len(token) < 3 and _has_only_tags(text, start, match.start() - len(token)):
        return False  # "1. First" at the start of the text
    key = token.lower()
    if key in _NEVER or (key in _COUNT and _is_numbering(key, word)):
        return False
    if key in _MAYBE or (_INITIAL.fullmatch(token) and token != "I"):
        return not word or (word.lower() in _STARTERS and (not is_lower or lower))
    if is_lower and not lower:
        return bool(close) is False and len(token) > 3 and token.isalpha()
    return True
