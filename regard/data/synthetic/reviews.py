"""Generated reviews whose evidence is known: one sentence, and in it a few words, decide the label.

A review of a film, a restaurant or a hotel has one sentence with the verdict of the reviewer on the thing reviewed. The
others are neutral details, or opinions that do not count: of other people, or on other things. Those take their words
from the same lists in both polarities, drawn without regard to the label, so that a bag of words is misled and a model
that finds the sentence is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from regard.errors import UserError, did_you_mean

LABELS = ("negative", "positive")

# Opinion words, [negative, positive]; the same lists serve verdicts and distractors.
ADJECTIVES = (
    "dreadful dull poor awful disappointing terrible tedious mediocre bad unpleasant forgettable weak horrible",
    "wonderful delightful superb excellent charming brilliant marvellous great good lovely splendid fine perfect",
)
VERBS = ("hated disliked loathed regretted", "loved enjoyed adored liked")
NOUNS = ("a disaster|a waste of time|a letdown|a mess|a failure", "a joy|a treat|a gem|a triumph|a delight")
_ADJECTIVES = [words.split() for words in ADJECTIVES]
_VERBS = [words.split() for words in VERBS]
_NOUNS = [words.split("|") for words in NOUNS]
_DEGREES = ["", "", "", "really ", "quite ", "simply ", "truly ", "rather "]
_NEGATIONS = ["not at all ", "far from ", "anything but ", "hardly "]

# An opinion has one of three shapes: {a} an adjective, {v} a verb in the past, {n} a noun phrase.
_VERDICTS = [
    "I {v} this {thing}",
    "I have to say that I {v} this {thing}",
    "In the end I {v} the {thing} myself",
    "All in all, this {thing} was {a}",
    "To my mind the whole {thing} was {a}",
    "For me, this {thing} was {n}",
    "My own verdict: this {thing} was {a}",
    "If you ask me, this {thing} was {n}",
    "I must admit this {thing} was {a}",
    "I found this {thing} {a}",
    "I thought that this {thing} was {a}",
    "My opinion is that this {thing} was {a}",
    "Speaking for myself, I {v} this {thing}",
]
_OTHERS = [
    "{Person} {v} this {thing}",
    "{Person} said that this {thing} was {a}",
    "{Person} found the whole {thing} {a}",
    "According to {person}, this {thing} was {n}",
    "{Person} told me that this {thing} was {a}",
    "I had read somewhere that this {thing} was {n}",
    "I was told by {person} that it was {a}",
    "For {person}, this {thing} was {n}",
    "I know that {person} {v} it",
    "I {v} {other}",
    "I thought that {other} was {a}",
    "I found {other} {a}",
    "For me, {other} was {n}",
    "By contrast, {other} was {a}",
    "To my mind {other} was {a}",
    "Speaking of {other}, I {v} it",
]
_OPENERS = ["Honestly, ", "Looking back, ", "To be fair, ", "As it happens, "]
_TAILS = [" that evening", " on the whole", " from start to finish", " the second time", " as far as it goes"]
_PEOPLE = [
    *("my sister", "my brother", "my wife", "my uncle", "my daughter", "her cousin", "my neighbour", "our guide"),
    *("a friend of mine", "the critic of the paper", "an old colleague", "a blogger"),
    *("the woman next to us", "the man at the door"),
]


@dataclass(frozen=True)
class Domain:
    """What is reviewed, what else may be judged on the way, and details that judge nothing."""

    things: list[str]
    others: list[str]
    details: list[str]


DOMAINS = {
    "film": Domain(
        ["film", "movie", "picture", "production"],
        [
            "the book",
            "the first part",
            "the trailer",
            "the poster",
            "the popcorn",
            "the short film",
            "the old version",
        ],
        [
            "We saw it on a {day} in {month}",
            "It runs for {number} minutes",
            "The story begins in {place} in the year {year}",
            "Two brothers meet again after {small} years",
            "The camera follows a postman through {place}",
            "It was shot in {place} with a crew of {number}",
            "The director grew up in {place}",
            "A train plays a part in the second half",
            "The music was written in {year}",
            "There were {small} people in the row before us",
            "It is the third part of a series",
            "The tickets cost {small} euros each",
            "Most of it takes place at night",
            "The credits name a cast of {number}",
        ],
    ),
    "restaurant": Domain(
        ["restaurant", "place", "bistro", "kitchen"],
        [
            "the bar next door",
            "the bakery opposite",
            "the old menu",
            "the market",
            "the wine from home",
            "the cafe we left",
        ],
        [
            "We had booked a table for {small} on a {day}",
            "The menu lists {number} dishes",
            "It stands at a corner of {place}",
            "The kitchen closes at {small}",
            "The owner comes from {place}",
            "They opened in {month} {year}",
            "I ordered the soup and then the fish",
            "There are {small} tables by the window",
            "The bill came to {number} euros",
            "The bread arrives in a paper bag",
            "A map of {place} hangs on the wall",
            "One pays at the counter",
            "We waited {small} minutes for the menu",
            "The chairs are made of wood",
        ],
    ),
    "hotel": Domain(
        ["hotel", "house", "inn", "lodge"],
        ["the airport bus", "the museum", "the old town", "the beach", "the hostel nearby", "the flight", "the tour"],
        [
            "We stayed for {small} nights in {month}",
            "It has {number} rooms on {small} floors",
            "Our room looked out on the street to {place}",
            "Breakfast begins at {small}",
            "The building dates from {year}",
            "The station is {number} metres away",
            "The key is a card",
            "One parks behind the building",
            "The lift goes up to floor {small}",
            "A night costs {number} euros",
            "We came by train from {place}",
            "The desk is open until {small}",
            "There is a pool on the roof",
            "Towels are changed every {small} days",
        ],
    ),
}


def _words(line: str) -> list[str]:
    return line.split()


_SLOTS = {
    "day": _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "month": _words("January March April May June July August October November"),
    "place": _words("Lisbon Vienna Oslo Dublin Naples Prague Ghent Turin Seville Basel Bergen Krakow"),
    "small": _words("two three four five six seven eight nine ten"),
    "number": [str(n) for n in range(20, 200, 7)],
    "year": [str(y) for y in range(1950, 2020, 6)],
}


@dataclass(frozen=True)
class Review:
    """`evidence`: character spans of the deciding words, negation included; `sentence`: which one holds them."""

    text: str
    label: str
    evidence: list[tuple[int, int]]
    sentence: int
    domain: str


def generate_reviews(
    n: int,
    seed: int,
    *,
    domains: Sequence[str] = tuple(DOMAINS),
    sentences: tuple[int, int] = (3, 10),
    distractors: tuple[int, int] = (1, 4),
    negation: float = 0.15,
) -> list[Review]:
    """`n` reviews, half of them positive; the same arguments give the same reviews.

    `sentences` and `distractors` (opinions that do not count) say how many, both ends included. `negation` is the share
    of adjectives said by denying the opposite: "not at all bad".
    """
    for name in domains:
        if name not in DOMAINS:
            raise UserError(f"unknown domain {name!r}; {did_you_mean(name, DOMAINS)}")
    if n < 0 or not domains or not 1 <= sentences[0] <= sentences[1] or not 0 <= distractors[0] <= distractors[1]:
        raise UserError(f"cannot generate n={n} reviews of {sentences} sentences with {distractors} distractors")
    random = Random(f"reviews {seed}")
    polarities = [i % 2 for i in range(n)]
    random.shuffle(polarities)
    names = list(domains)
    return [_review(random, p, random.choice(names), sentences, distractors, negation) for p in polarities]


def _review(
    random: Random,
    polarity: int,
    domain: str,
    sentences: tuple[int, int],
    distractors: tuple[int, int],
    negation: float,
) -> Review:
    room = DOMAINS[domain]
    count = random.randint(*sentences)
    others = min(random.randint(*distractors), count - 1)
    rest = [_opinion(random, room, random.choice(_OTHERS), random.randrange(2), negation)[0] for _ in range(others)]
    rest += [
        _fill(random, detail) for detail in random.sample(room.details, min(count - 1 - others, len(room.details)))
    ]
    random.shuffle(rest)
    verdict, (start, end) = _opinion(random, room, random.choice(_VERDICTS), polarity, negation)
    at = random.randint(0, len(rest))
    parts = [part[0].upper() + part[1:] + "." for part in (*rest[:at], verdict, *rest[at:])]
    before = sum(len(part) + 1 for part in parts[:at])
    return Review(" ".join(parts), LABELS[polarity], [(before + start, before + end)], at, domain)


def _opinion(random: Random, room: Domain, frame: str, polarity: int, negation: float) -> tuple[str, tuple[int, int]]:
    """A sentence with an opinion in it, and where the opinion's words stand."""
    if "{v}" in frame:
        slot, words = "{v}", random.choice(_VERBS[polarity])
    elif "{n}" in frame:
        slot, words = "{n}", random.choice(_NOUNS[polarity])
    elif random.random() < negation:
        slot, words = "{a}", random.choice(_NEGATIONS) + random.choice(_ADJECTIVES[1 - polarity])
    else:
        slot, words = "{a}", random.choice(_DEGREES) + random.choice(_ADJECTIVES[polarity])
    person = random.choice(_PEOPLE)
    frame = frame.replace("{Person}", person).replace("{person}", person)
    frame = frame.replace("{thing}", random.choice(room.things)).replace("{other}", random.choice(room.others))
    # openers and tails stand with verdicts and distractors alike, and say nothing
    if frame.startswith(("I ", "my ", "the ", "a ", "an ", "our ", "her ")) and random.random() < 0.25:
        frame = random.choice(_OPENERS) + frame
    if random.random() < 0.25:
        frame += random.choice(_TAILS)
    start = frame.index(slot)
    return frame.replace(slot, words), (start, start + len(words))


def _fill(random: Random, detail: str) -> str:
    return detail.format(**{name: random.choice(words) for name, words in _SLOTS.items()})
