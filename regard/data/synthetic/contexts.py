"""Generated texts in which a sentence means different things after different ones.

    Somebody asks for the lamp. There are a red door, a blue lamp, a green chair and a white gate.      -> blue

One sentence names a thing, another lists many things with their colours; the label is the colour of the thing named.
Every colour stands equally often in a list, so words alone say nothing about the label, and neither does any one
sentence. A model that turns each sentence into a vector of its own before it compares them has to keep the whole list
(twelve things in four colours: 24 bits); one that reads the list knowing what was asked needs a single word of it.

A model can learn nothing from such texts until it can do all at once. Where colours are drawn freely (`even=False`) and
lists begin with one thing, words alone say a little: such texts are to learn from, the even ones to measure on.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from regard.errors import UserError, did_you_mean

_NOUNS = (
    "lamp door chair gate roof wall floor table shelf clock mirror carpet curtain bottle kettle bucket basket ladder "
    "barrel wagon boat bridge tower bench fence window candle drum flute hammer helmet jacket ribbon saddle scarf "
    "shovel spoon teapot trumpet umbrella"
)
OBJECTS: list[str] = [*_NOUNS.split()]
COLOURS = ["blue", "green", "red", "white", "black", "brown", "grey", "yellow"]
_NAMING = [
    "Somebody asks for the {thing}",
    "All that counts is the {thing}",
    "We want to know about the {thing}",
    "Please tell us of the {thing}",
    "The question is about the {thing}",
]
_LISTING = ["There are {list}", "One can see {list}", "The room holds {list}", "They own {list}", "Here we find {list}"]
_FILLERS = [
    "It rained all morning",
    "Nobody had slept well",
    "The train was late again",
    "A dog barked somewhere",
    "The shop opens at nine",
    "They spoke in low voices",
    "It was a long way home",
    "The post had come early",
]
ORDERS = ("before", "after", "either")


@dataclass(frozen=True)
class Context:
    """`evidence`: where the colour that is the label stands, with its thing; `sentence`: the number of the list."""

    text: str
    label: str
    evidence: list[tuple[int, int]]
    sentence: int


def generate_contexts(
    n: int,
    seed: int,
    *,
    things: int = 12,
    listed: tuple[int, int] = (12, 12),
    colours: int = 4,
    even: bool = True,
    naming: str = "before",
    fillers: tuple[int, int] = (0, 0),
) -> list[Context]:
    """`n` texts, each label equally often; the same arguments give the same texts.

    A list has between `listed[0]` and `listed[1]` of the first `things` things; where it is `even`, a multiple of
    `colours`, so that each colour stands there equally often, and else the other colours are drawn freely. `naming`:
    whether the thing is named before the list, after it, or either; `fillers`: how many sentences without meaning stand
    anywhere.
    """
    if naming not in ORDERS:
        raise UserError(f"unknown order {naming!r}; {did_you_mean(naming, ORDERS)}")
    if not 2 <= colours <= len(COLOURS) or not colours <= listed[1] <= things <= len(OBJECTS):
        raise UserError(
            f"cannot list {listed} of {things} things in {colours} colours: wanted 2 to {len(COLOURS)} colours, at "
            f"least one thing for each, and at most {len(OBJECTS)} things to choose from"
        )
    sizes = [size for size in range(max(1, listed[0]), listed[1] + 1) if not even or size % colours == 0]
    if not sizes:
        raise UserError(f"a list of {listed} things holds no multiple of {colours}, the number of colours")
    if n < 0 or not 0 <= fillers[0] <= fillers[1] <= len(_FILLERS):
        raise UserError(f"cannot generate n={n} texts with {fillers} fillers of {len(_FILLERS)}")
    random = Random(f"contexts {seed}")
    labels = [COLOURS[i % colours] for i in range(n)]
    random.shuffle(labels)
    return [
        _context(random, label, OBJECTS[:things], sizes, COLOURS[:colours], even, naming, fillers) for label in labels
    ]


def _context(
    random: Random,
    label: str,
    things: list[str],
    sizes: list[int],
    colours: list[str],
    even: bool,
    naming: str,
    fillers: tuple[int, int],
) -> Context:
    size = random.choice(sizes)
    paint = colours * (size // len(colours)) if even else [label, *random.choices(colours, k=size - 1)]
    random.shuffle(paint)
    pairs = list(zip(paint, random.sample(things, len(paint)), strict=True))
    _, named = random.choice([pair for pair in pairs if pair[0] == label])
    items = [f"a {colour} {thing}" for colour, thing in pairs]
    named_all = ", ".join(items[:-1]) + " and " * (len(items) > 1) + items[-1]
    wanted = f"{label} {named}"
    question = random.choice(_NAMING).format(thing=named)
    listing = random.choice(_LISTING).format(list=named_all)
    order = random.choice(ORDERS[:2]) if naming == "either" else naming
    parts = [question, listing] if order == "before" else [listing, question]
    for filler in random.sample(_FILLERS, random.randint(*fillers)):
        parts.insert(random.randint(0, len(parts)), filler)
    at = parts.index(listing)
    before = sum(len(part) + 2 for part in parts[:at])  # each sentence ends in ". "
    start = before + listing.index(wanted)
    return Context(". ".join(parts) + ".", label, [(start, start + len(wanted))], at)
