"""Generated texts in which the label depends on two sentences together.

    Somebody asks for the lamp. There are a red door, a blue lamp, a green chair and a white gate.      -> blue

One sentence names an object, another lists many objects with their colors. The label is the color of the named object.
Each color occurs equally often in a list, so neither single words nor any single sentence predict the label. A model
that encodes each sentence separately before it compares them has to store the whole list (twelve objects in four
colors: 24 bits). A model that reads the list knowing the question needs only one word of it.

A model can learn nothing from such texts until it solves the whole task. If colors are drawn independently
(`balanced=False`) and lists may have one object, single words are slightly predictive. Such texts are for training, the
balanced ones for evaluation.
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
COLORS = ["blue", "green", "red", "white", "black", "brown", "grey", "yellow"]
_QUESTIONS = [
    "Somebody asks for the {object}",
    "All that counts is the {object}",
    "We want to know about the {object}",
    "Please tell us of the {object}",
    "The question is about the {object}",
]
_LISTS = ["There are {list}", "One can see {list}", "The room holds {list}", "They own {list}", "Here we find {list}"]
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
    """A generated text.

    Attributes:
        text: The text.
        label: The color of the named object.
        evidence: Character span of the deciding color and its object.
        sentence: Index of the sentence with the list.
    """

    text: str
    label: str
    evidence: list[tuple[int, int]]
    sentence: int


def generate_contexts(
    count: int,
    seed: int = 0,
    *,
    num_objects: int = 12,
    list_length: tuple[int, int] = (12, 12),
    num_colors: int = 4,
    balanced: bool = True,
    question: str = "before",
    fillers: tuple[int, int] = (0, 0),
) -> list[Context]:
    """Generate texts with equally frequent labels. The same arguments give the same texts.

    Args:
        count: Number of texts.
        seed: Random seed.
        num_objects: Number of different objects.
        list_length: Minimum and maximum number of objects in a list.
        num_colors: Number of colors, which are the labels.
        balanced: Whether each color occurs equally often in a list. The length is then a multiple of `num_colors`.
        question: Whether the object is named "before" the list, "after" it, or "either".
        fillers: Minimum and maximum number of irrelevant sentences, at random positions.
    """
    if question not in ORDERS:
        raise UserError(f"unknown order {question!r}; {did_you_mean(question, ORDERS)}")
    if not 2 <= num_colors <= len(COLORS) or not num_colors <= list_length[1] <= num_objects <= len(OBJECTS):
        raise UserError(
            f"cannot list {list_length} of {num_objects} objects in {num_colors} colors: expected 2 to {len(COLORS)} "
            f"colors, at least one object for each color, and at most {len(OBJECTS)} objects"
        )
    sizes = [n for n in range(max(1, list_length[0]), list_length[1] + 1) if not balanced or n % num_colors == 0]
    if not sizes:
        raise UserError(f"no list length in {list_length} is a multiple of {num_colors}, the number of colors")
    if count < 0 or not 0 <= fillers[0] <= fillers[1] <= len(_FILLERS):
        raise UserError(f"cannot generate {count} texts with {fillers} of {len(_FILLERS)} fillers")
    rng = Random(f"contexts {seed}")
    labels = [COLORS[i % num_colors] for i in range(count)]
    rng.shuffle(labels)
    objects, colors = OBJECTS[:num_objects], COLORS[:num_colors]
    return [_generate_context(rng, label, objects, sizes, colors, balanced, question, fillers) for label in labels]


def _generate_context(
    rng: Random,
    label: str,
    objects: list[str],
    sizes: list[int],
    colors: list[str],
    balanced: bool,
    order: str,
    fillers: tuple[int, int],
) -> Context:
    size = rng.choice(sizes)
    list_colors = colors * (size // len(colors)) if balanced else [label, *rng.choices(colors, k=size - 1)]
    rng.shuffle(list_colors)
    pairs = list(zip(list_colors, rng.sample(objects, len(list_colors)), strict=True))
    _, target = rng.choice([pair for pair in pairs if pair[0] == label])
    items = [f"a {color} {name}" for color, name in pairs]
    enumeration = ", ".join(items[:-1]) + " and " * (len(items) > 1) + items[-1]
    evidence = f"{label} {target}"
    question = rng.choice(_QUESTIONS).format(object=target)
    listing = rng.choice(_LISTS).format(list=enumeration)
    order = rng.choice(ORDERS[:2]) if order == "either" else order
    sentences = [question, listing] if order == "before" else [listing, question]
    for filler in rng.sample(_FILLERS, rng.randint(*fillers)):
        sentences.insert(rng.randint(0, len(sentences)), filler)
    index = sentences.index(listing)
    offset = sum(len(sentence) + 2 for sentence in sentences[:index])  # each sentence ends with ". "
    start = offset + listing.index(evidence)
    return Context(". ".join(sentences) + ".", label, [(start, start + len(evidence))], index)
