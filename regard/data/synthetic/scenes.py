"""Generated scenes: two coloured shapes at known places, with their true sentence. Nothing is downloaded.

    a red circle above a blue square

Of the two, the larger one is named first, so that each scene has one true sentence; how they lie to each other is
above, below, left of or right of. The box of each is known, and so is which words name it: what is needed to say how
much of the attention falls on what a word names. What is set aside, so that no scene to learn from shows it:

    unseen    one pair of things in five; each of the two things is seen with others
    strange   one thing (a colour with a shape) of each colour; the colour is seen with other shapes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from regard.errors import UserError, did_you_mean

COLOURS = {
    "red": (220, 45, 45),
    "green": (45, 170, 70),
    "blue": (60, 90, 225),
    "yellow": (235, 215, 60),
    "purple": (150, 60, 185),
    "white": (240, 240, 240),
}
SHAPES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "circle": lambda y, x: x * x + y * y <= 1,
    "square": lambda y, x: np.maximum(abs(x), abs(y)) <= 0.9,
    "triangle": lambda y, x: (abs(y) <= 0.95) & (abs(x) <= (y + 0.95) / 1.9),
    "diamond": lambda y, x: abs(x) + abs(y) <= 1,
    "cross": lambda y, x: (np.minimum(abs(x), abs(y)) <= 0.3) & (np.maximum(abs(x), abs(y)) <= 1),
    "ring": lambda y, x: (x * x + y * y <= 1) & (x * x + y * y >= 0.36),
}
RELATIONS = {"above": (1, 0), "below": (-1, 0), "left of": (0, 1), "right of": (0, -1)}
"""Where the second one lies, seen from the first: rows down, columns to the right."""

SceneObject = tuple[str, str]
Box = tuple[float, float, float, float]
PARTS = ("known", "unseen", "strange")
SUPERSAMPLING = 3  # each pixel is the mean of FINE x FINE points
LARGE, SMALL = (0.15, 0.19), (0.1, 0.125)  # radii as shares of the picture's side


@dataclass(frozen=True)
class Scene:
    """picture (size, size, 3) of bytes; `named` says of each word that names a thing where that is: the word's number,
    and its box (left, top, right, bottom) in pixels."""

    picture: np.ndarray
    sentence: str
    named: list[tuple[int, Box]]


@cache
def list_objects() -> tuple[list[SceneObject], list[SceneObject]]:
    """Those to learn from, and those set aside: one of each colour, of several shapes."""
    colours, shapes = list(COLOURS), list(SHAPES)
    aside = {(colour, shapes[(2 * i + i // 3) % len(shapes)]) for i, colour in enumerate(colours)}
    whole = [(colour, shape) for colour in colours for shape in shapes]
    return [t for t in whole if t not in aside], [t for t in whole if t in aside]


def is_held_out_pair(first: SceneObject, second: SceneObject) -> bool:
    """Whether these two are set aside as a pair, whichever is named first."""
    known = list_objects()[0]
    return (known.index(first) + known.index(second)) % 5 == 0


def generate_scenes(count: int, seed: int, *, size: int = 64, part: str = "known") -> list[Scene]:
    """So many scenes; the same seed draws the same. `part` is known, unseen or strange, as said above."""
    if part not in PARTS:
        raise UserError(f"unknown part {part!r} of the scenes; {did_you_mean(part, PARTS)}")
    if size < 32:
        raise UserError(f"a scene is 32 pixels wide or more, so that a shape can be told; given {size}")
    if count < 1:
        raise UserError(f"one scene or more is wanted; given {count}")
    random = np.random.default_rng([seed, PARTS.index(part)])
    return [_scene(random, part, size) for _ in range(count)]


def _pair(random: np.random.Generator, part: str) -> list[SceneObject]:
    known, aside = list_objects()
    while True:
        pair = [known[random.integers(len(known))] for _ in range(2)]
        if part == "strange":
            pair[random.integers(2)] = aside[random.integers(len(aside))]
            return pair
        if is_held_out_pair(*pair) == (part == "unseen"):
            return pair


def _scene(random: np.random.Generator, part: str, size: int) -> Scene:
    pair = _pair(random, part)
    relation = list(RELATIONS)[random.integers(len(RELATIONS))]
    radii = [random.uniform(*LARGE), random.uniform(*SMALL)]
    centres = _placed(random, RELATIONS[relation], radii)
    picture = np.full((size, size, 3), random.uniform(15, 75)) + random.normal(0, 6, (size, size, 3))
    boxes: list[Box] = []
    for (colour, shape), (y, x), radius in zip(pair, centres, radii, strict=True):
        paint = np.clip(np.array(COLOURS[colour]) + random.uniform(-18, 18, 3), 0, 255)
        boxes.append(_draw(picture, SHAPES[shape], paint, y * size, x * size, radius * size))
    words = ["a", *pair[0], *relation.split(), "a", *pair[1]]
    numbers = [1, 2, len(words) - 2, len(words) - 1]
    named = [(number, boxes[number > 2]) for number in numbers]
    return Scene(np.clip(picture, 0, 255).astype(np.uint8), " ".join(words), named)


def _placed(
    random: np.random.Generator, towards: tuple[int, int], radii: list[float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Centres (y, x) within the picture, as shares of its side: the one lies clearly on its side of the other."""
    reach = max(radii) + 0.01
    apart, beside = random.uniform(sum(radii) + 0.05, 1 - 2 * reach), random.uniform(-0.12, 0.12)
    dy, dx = (towards[0] * apart, beside) if towards[0] else (beside, towards[1] * apart)
    y = random.uniform(max(reach, reach - dy), min(1 - reach, 1 - reach - dy))
    x = random.uniform(max(reach, reach - dx), min(1 - reach, 1 - reach - dx))
    return (y, x), (y + dy, x + dx)


def _draw(
    picture: np.ndarray,
    shape: Callable[[np.ndarray, np.ndarray], np.ndarray],
    paint: np.ndarray,
    y: float,
    x: float,
    radius: float,
) -> Box:
    """Paint a shape into a picture, with soft edges, and say where it is."""
    top, left = int(y - radius) - 1, int(x - radius) - 1
    side = int(2 * radius) + 4
    points = (np.arange(side * SUPERSAMPLING) + 0.5) / SUPERSAMPLING
    inside = shape(((points + top - y) / radius)[:, None], ((points + left - x) / radius)[None])
    cover = inside.reshape(side, SUPERSAMPLING, side, SUPERSAMPLING).mean((1, 3))
    rows, columns = slice(max(top, 0), top + side), slice(max(left, 0), left + side)
    part = picture[rows, columns]
    cover = cover[rows.start - top :, columns.start - left :][: part.shape[0], : part.shape[1], None]
    part += cover * (paint - part)
    return (x - radius, y - radius, x + radius, y + radius)
