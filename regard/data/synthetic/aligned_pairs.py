"""Generated pairs whose true alignment is known: dates as they are written in many places, to ISO; numbers spelled out
in one language, to another. No download; a seed gives the same pairs.

    dates     "le 3 mai 1987" -> "1987 - 05 - 03"       each part of the date stands for the words it came from
    numbers   "two hundred and seven" -> "zweihundertsieben"      a number, aligned where single words do

Babel (https://babel.pocoo.org) writes the dates, num2words the numbers; both are wanted only here.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from regard.errors import UserError, did_you_mean

LOCALES = ("en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pt_BR", "pl_PL", "sv_SE", "fi_FI", "cs_CZ")
STYLES = ("long", "medium", "full")
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
KINDS = ("dates", "numbers")
_MARKS = ".,º°"


@dataclass(frozen=True)
class AlignedPair:
    """A source, its target, and the true pairs (word of the source, word of the target), words being what stands
    between spaces, counted from 0."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]


def generate_pairs(kind: str, count: int, seed: int = 0, **how: Any) -> list[AlignedPair]:
    """`kind` is dates or numbers; `how` are the options of `dates` and `numbers`."""
    if kind not in KINDS:
        raise UserError(f"unknown generated pairs {kind!r}; {did_you_mean(kind, KINDS)}")
    if count < 1:
        raise UserError(f"the number of pairs must be 1 or more, and was given {count}")
    return (generate_dates if kind == "dates" else generate_numbers)(count, seed, **how)


def generate_dates(count: int, seed: int = 0, *, locales: tuple[str, ...] = LOCALES) -> list[AlignedPair]:
    """Dates of two centuries in these locales to `year - month - day`."""
    try:
        from babel.dates import format_date, get_date_format
    except ImportError:
        raise _missing("Babel") from None
    random, made = Random(seed), []
    while len(made) < count:
        day = FIRST + datetime.timedelta(random.randrange((LAST - FIRST).days + 1))
        locale, style = random.choice(locales), random.choice(STYLES)
        pattern = str(get_date_format(style, locale).pattern)
        whole = " ".join(format_date(day, style, locale).split())
        parts = [_field(pattern, letters, day, locale, format_date) for letters in ("y", "ML", "d")]
        found = _places(whole.split(), parts)
        if found is not None:
            target = f"{day.year:04d} - {day.month:02d} - {day.day:02d}"
            made.append(AlignedPair(whole, target, tuple(sorted(zip(found, (0, 2, 4), strict=True)))))
    return made


def _field(pattern: str, letters: str, day: datetime.date, locale: str, write: Callable[..., str]) -> str:
    """The words that write one part of the date: the pattern's own field, written alone."""
    found = re.search(rf"([{letters}])\1*", re.sub(r"'[^']*'", " ", pattern))
    return write(day, found[0], locale).strip() if found else ""


def _places(words: list[str], parts: list[str]) -> list[int] | None:
    """The word in which each part stands; None where that cannot be told, as in 3.5.1987."""
    found: list[int] = []
    bare = [word.strip(_MARKS) for word in words]
    for part in parts:
        wanted = part.split()[0].strip(_MARKS) if part else ""
        at = [i for i, word in enumerate(bare) if word == wanted and i not in found]
        if len(at) != 1:
            return None
        found += at
    return found


def generate_numbers(
    count: int, seed: int = 0, *, source: str = "en", target: str = "fr", below: int = 1_000_000
) -> list[AlignedPair]:
    """Numbers spelled out in one language, to another. Numbers of few digits are as likely as those of many. The
    alignment names words that spell the same digits with the same weight, such as `seven` and `sept`; words that have
    no partner of their own (`and`, compounds) are in no pair."""
    try:
        from num2words import num2words
    except ImportError:
        raise _missing("num2words") from None
    random, made, seen = Random(seed), [], {}

    def spell(number: int, language: str) -> str:
        try:
            return " ".join(num2words(number, lang=language).replace(",", " ").replace("-", " - ").split())
        except NotImplementedError:
            raise UserError(f"num2words does not know the language {language!r}; try en, de, fr, es, it, nl") from None

    def meanings(language: str) -> dict[str, int]:
        """What single words say by themselves."""
        if language not in seen:
            plain = [*range(21), *range(30, 100, 10), 100, 1000, 1_000_000]
            words = [(spell(number, language).split(), number) for number in plain]
            known: dict[str, int] = {}
            for parts, number in words:
                known.setdefault(parts[-1], number)
            seen[language] = known
        return seen[language]

    digits = len(str(below - 1))
    while len(made) < count:
        number = random.randrange(min(below, 10 ** random.randint(1, digits)))
        first, second = spell(number, source), spell(number, target)
        made.append(AlignedPair(first, second, _same(first.split(), second.split(), meanings(source), meanings(target))))
    return made


def _same(a: list[str], b: list[str], means_a: dict[str, int], means_b: dict[str, int]) -> tuple[tuple[int, int], ...]:
    """Words that mean the same, the first with the first, where both sides have as many of them."""
    pairs = []
    for value in {means_a.get(word) for word in a} - {None}:
        left = [i for i, word in enumerate(a) if means_a.get(word) == value]
        right = [i for i, word in enumerate(b) if means_b.get(word) == value]
        if len(left) == len(right):
            pairs += list(zip(left, right, strict=True))
    return tuple(sorted(pairs))


def _missing(package: str) -> UserError:
    return UserError(f"these pairs are written by {package}, which is not installed: pip install {package}")
