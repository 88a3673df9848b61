"""Generated sentence pairs with known word alignment. Nothing is downloaded, and a seed gives the same pairs.

    dates     "le 3 mai 1987" -> "1987 - 05 - 03"                   dates in many locales -> ISO
    numbers   "two hundred and seven" -> "zweihundertsieben"        numbers in words, in two languages

Babel (https://babel.pocoo.org) formats the dates, num2words the numbers. Both packages are needed only here.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from regard.errors import UserError, did_you_mean

LOCALES = ("en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pt_BR", "pl_PL", "sv_SE", "fi_FI", "cs_CZ")
STYLES = ("long", "medium", "full")
FIRST_DAY, LAST_DAY = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
KINDS = ("dates", "numbers")
_PUNCTUATION = ".,º°"


@dataclass(frozen=True)
class AlignedPair:
    """A source, its target, and the true alignment: pairs (source word, target word) of word indices from 0."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]


def generate_pairs(kind: str, count: int, seed: int = 0, **options: Any) -> list[AlignedPair]:
    """Generate pairs of the given kind, "dates" or "numbers", with the options of that generator."""
    if kind not in KINDS:
        raise UserError(f"unknown kind of pairs {kind!r}; {did_you_mean(kind, KINDS)}")
    return (generate_dates if kind == "dates" else generate_numbers)(count, seed, **options)


def generate_dates(count: int, seed: int = 0, *, locales: tuple[str, ...] = LOCALES) -> list[AlignedPair]:
    """Generate dates of two centuries in these locales, with the target `year - month - day`."""
    _check_count(count)
    try:
        from babel.dates import format_date, get_date_format
    except ImportError:
        raise _missing_package("Babel") from None
    rng, pairs = Random(seed), []
    while len(pairs) < count:
        day = FIRST_DAY + datetime.timedelta(rng.randrange((LAST_DAY - FIRST_DAY).days + 1))
        locale, style = rng.choice(locales), rng.choice(STYLES)
        pattern = str(get_date_format(style, locale).pattern)
        source = " ".join(format_date(day, style, locale).split())
        fields = [_format_field(pattern, letters, day, locale, format_date) for letters in ("y", "ML", "d")]
        indices = _find_words(source.split(), fields)
        if indices is not None:
            target = f"{day.year:04d} - {day.month:02d} - {day.day:02d}"
            pairs.append(AlignedPair(source, target, tuple(sorted(zip(indices, (0, 2, 4), strict=True)))))
    return pairs


def _format_field(pattern: str, letters: str, day: datetime.date, locale: str, format_date: Callable[..., str]) -> str:
    """Return one field of the date (year, month or day) formatted alone."""
    match = re.search(rf"([{letters}])\1*", re.sub(r"'[^']*'", " ", pattern))
    return format_date(day, match[0], locale).strip() if match else ""


def _find_words(words: list[str], fields: list[str]) -> list[int] | None:
    """Return the index of the word that contains each field; None if that is ambiguous, as in 3.5.1987."""
    indices: list[int] = []
    stripped = [word.strip(_PUNCTUATION) for word in words]
    for field in fields:
        target = field.split()[0].strip(_PUNCTUATION) if field else ""
        matches = [i for i, word in enumerate(stripped) if word == target and i not in indices]
        if len(matches) != 1:
            return None
        indices += matches
    return indices


def generate_numbers(
    count: int, seed: int = 0, *, source: str = "en", target: str = "fr", limit: int = 1_000_000
) -> list[AlignedPair]:
    """Generate numbers below `limit` in words, in two languages.

    Numbers with few digits are as likely as numbers with many. The alignment links words with the same numeric value,
    such as `seven` and `sept`. Words without a counterpart (`and`, compounds) are not aligned.
    """
    _check_count(count)
    try:
        from num2words import num2words
    except ImportError:
        raise _missing_package("num2words") from None

    def spell_number(number: int, language: str) -> str:
        try:
            return " ".join(num2words(number, lang=language).replace(",", " ").replace("-", " - ").split())
        except NotImplementedError:
            raise UserError(f"num2words does not know the language {language!r}; try en, de, fr, es, it, nl") from None

    @cache
    def word_values(language: str) -> dict[str, int]:
        """Return the numeric value of single words."""
        values: dict[str, int] = {}
        for number in [*range(21), *range(30, 100, 10), 100, 1000, 1_000_000]:
            values.setdefault(spell_number(number, language).split()[-1], number)
        return values

    rng, pairs = Random(seed), []
    max_digits = len(str(limit - 1))
    while len(pairs) < count:
        number = rng.randrange(min(limit, 10 ** rng.randint(1, max_digits)))
        first, second = spell_number(number, source), spell_number(number, target)
        alignment = _align_by_value(first.split(), second.split(), word_values(source), word_values(target))
        pairs.append(AlignedPair(first, second, alignment))
    return pairs


def _align_by_value(
    source: list[str], target: list[str], source_values: dict[str, int], target_values: dict[str, int]
) -> tuple[tuple[int, int], ...]:
    """Align words with the same value in their order, where both sides have the same number of them."""
    alignment = []
    for value in {source_values.get(word) for word in source} - {None}:
        left = [i for i, word in enumerate(source) if source_values.get(word) == value]
        right = [i for i, word in enumerate(target) if target_values.get(word) == value]
        if len(left) == len(right):
            alignment += list(zip(left, right, strict=True))
    return tuple(sorted(alignment))


def _check_count(count: int) -> None:
    if count < 1:
        raise UserError(f"the number of pairs must be at least 1, got {count}")


def _missing_package(package: str) -> UserError:
    return UserError(f"these pairs need the package {package}: pip install {package}")
