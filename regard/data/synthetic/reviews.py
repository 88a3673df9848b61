"""Generated reviews with known evidence: a few words of one sentence decide the label.

A review of a film, a restaurant or a hotel has one sentence with the verdict of the reviewer on the reviewed thing. All
other sentences are neutral details, or distractors: opinions of other people or about other things. Distractors use the
words of both polarities, independently of the label. So a bag of words is misled, and a model that finds the sentence
is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from regard.errors import UserError, did_you_mean

LABELS = ("negative", "positive")

# Opinion words, [negative, positive], for verdicts and distractors.
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

# An opinion has one of three forms: {a} an adjective, {v} a verb in the past tense, {n} a noun phrase.
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
_DISTRACTORS = [
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
    """Names of the reviewed thing, other things that distractors are about, and neutral details."""

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


_SLOTS = {
    "day": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
    "month": ["January", "March", "April", "May", "June", "July", "August", "October", "November"],
    "place": [
        "Lisbon",
        "Vienna",
        "Oslo",
        "Dublin",
        "Naples",
        "Prague",
        "Ghent",
        "Turin",
        "Seville",
        "Basel",
        "Bergen",
        "Krakow",
    ],
    "small": ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
    "number": [str(n) for n in range(20, 200, 7)],
    "year": [str(y) for y in range(1950, 2020, 6)],
}


@dataclass(frozen=True)
class Review:
    """A generated review.

    Attributes:
        text: The text.
        label: "negative" or "positive".
        evidence: Character spans of the deciding words, including negation.
        sentence: Index of the sentence that contains them.
        domain: What is reviewed, a key of `DOMAINS`.
    """

    text: str
    label: str
    evidence: list[tuple[int, int]]
    sentence: int
    domain: str


def generate_reviews(
    count: int,
    seed: int = 0,
    *,
    domains: Sequence[str] = tuple(DOMAINS),
    sentences: tuple[int, int] = (3, 10),
    distractors: tuple[int, int] = (1, 4),
    negation: float = 0.15,
) -> list[Review]:
    """Generate reviews, half of them positive. The same arguments give the same reviews.

    Args:
        count: Number of reviews.
        seed: Random seed.
        domains: What is reviewed, keys of `DOMAINS`.
        sentences: Minimum and maximum number of sentences.
        distractors: Minimum and maximum number of distractors.
        negation: Fraction of adjectives that are expressed by a negated opposite, such as "not at all bad".
    """
    for name in domains:
        if name not in DOMAINS:
            raise UserError(f"unknown domain {name!r}; {did_you_mean(name, DOMAINS)}")
    if count < 0 or not domains or not 1 <= sentences[0] <= sentences[1] or not 0 <= distractors[0] <= distractors[1]:
        raise UserError(f"cannot generate {count} reviews of {sentences} sentences with {distractors} distractors")
    rng = Random(f"reviews {seed}")
    polarities = [i % 2 for i in range(count)]
    rng.shuffle(polarities)
    names = list(domains)
    return [_generate_review(rng, p, rng.choice(names), sentences, distractors, negation) for p in polarities]


def _generate_review(
    rng: Random,
    polarity: int,
    domain_name: str,
    sentences: tuple[int, int],
    distractors: tuple[int, int],
    negation: float,
) -> Review:
    domain = DOMAINS[domain_name]
    count = rng.randint(*sentences)
    num_distractors = min(rng.randint(*distractors), count - 1)
    fillers = [
        _generate_opinion(rng, domain, rng.choice(_DISTRACTORS), rng.randrange(2), negation)[0]
        for _ in range(num_distractors)
    ]
    num_details = min(count - 1 - num_distractors, len(domain.details))
    fillers += [_fill_slots(rng, detail) for detail in rng.sample(domain.details, num_details)]
    rng.shuffle(fillers)
    verdict, (start, end) = _generate_opinion(rng, domain, rng.choice(_VERDICTS), polarity, negation)
    index = rng.randint(0, len(fillers))
    texts = [text[0].upper() + text[1:] + "." for text in (*fillers[:index], verdict, *fillers[index:])]
    offset = sum(len(text) + 1 for text in texts[:index])
    return Review(" ".join(texts), LABELS[polarity], [(offset + start, offset + end)], index, domain_name)


def _generate_opinion(
    rng: Random, domain: Domain, frame: str, polarity: int, negation: float
) -> tuple[str, tuple[int, int]]:
    """Return a sentence with an opinion, and the character span of the opinion words."""
    if "{v}" in frame:
        slot, words = "{v}", rng.choice(_VERBS[polarity])
    elif "{n}" in frame:
        slot, words = "{n}", rng.choice(_NOUNS[polarity])
    elif rng.random() < negation:
        slot, words = "{a}", rng.choice(_NEGATIONS) + rng.choice(_ADJECTIVES[1 - polarity])
    else:
        slot, words = "{a}", rng.choice(_DEGREES) + rng.choice(_ADJECTIVES[polarity])
    person = rng.choice(_PEOPLE)
    frame = frame.replace("{Person}", person).replace("{person}", person)
    frame = frame.replace("{thing}", rng.choice(domain.things)).replace("{other}", rng.choice(domain.others))
    # Openers and tails occur with verdicts and distractors alike, and carry no information.
    if frame.startswith(("I ", "my ", "the ", "a ", "an ", "our ", "her ")) and rng.random() < 0.25:
        frame = rng.choice(_OPENERS) + frame
    if rng.random() < 0.25:
        frame += rng.choice(_TAILS)
    start = frame.index(slot)
    return frame.replace(slot, words), (start, start + len(words))


def _fill_slots(rng: Random, detail: str) -> str:
    return detail.format(**{name: rng.choice(words) for name, words in _SLOTS.items()})
