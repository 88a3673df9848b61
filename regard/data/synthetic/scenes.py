"""Generated scenes: images of two colored shapes with a true caption. Nothing is downloaded.

    a red circle above a blue square

The larger object is named first, so that each scene has exactly one true caption. The relation is above, below, left of
or right of. The bounding box of each object is known, and which words name it: this allows measuring how much attention
falls on the object that a word names. Two kinds of scenes are held out from the training scenes:

    unseen    one pair of objects in five; each of the two objects occurs with others
    novel     one object (a color with a shape) of each color; the color occurs with other shapes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from regard.errors import UserError, did_you_mean

COLORS = {
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
"""Direction (rows, columns) from the first object to the second."""

SceneObject = tuple[str, str]
"""Color and shape."""
Box = tuple[float, float, float, float]
PARTS = ("seen", "unseen", "novel")
SUPERSAMPLING = 3  # each pixel is the mean of 3 x 3 points
LARGE, SMALL = (0.15, 0.19), (0.1, 0.125)  # range of radii, as fractions of the side of the image


@dataclass(frozen=True)
class Scene:
    """A generated image.

    Attributes:
        image: (size, size, 3) uint8.
        caption: The true caption.
        word_boxes: For each word that names an object, its index in the caption and the bounding box (left, top, right,
            bottom) in pixels.
    """

    image: np.ndarray
    caption: str
    word_boxes: list[tuple[int, Box]]


@cache
def list_objects() -> tuple[list[SceneObject], list[SceneObject]]:
    """Return the objects for training, and the held-out ones: one of each color, of several shapes."""
    colors, shapes = list(COLORS), list(SHAPES)
    held_out = {(color, shapes[(2 * i + i // 3) % len(shapes)]) for i, color in enumerate(colors)}
    objects = [(color, shape) for color in colors for shape in shapes]
    return [o for o in objects if o not in held_out], [o for o in objects if o in held_out]


def is_held_out_pair(first: SceneObject, second: SceneObject) -> bool:
    """Return whether this pair is held out, in either order."""
    objects = list_objects()[0]
    return (objects.index(first) + objects.index(second)) % 5 == 0


def generate_scenes(count: int, seed: int = 0, *, size: int = 64, part: str = "seen") -> list[Scene]:
    """Generate scenes. The same arguments give the same scenes.

    Args:
        count: Number of scenes.
        seed: Random seed.
        size: Side of the image in pixels.
        part: "seen" for training, or one of the held-out parts "unseen" and "novel".
    """
    if part not in PARTS:
        raise UserError(f"unknown part {part!r} of the scenes; {did_you_mean(part, PARTS)}")
    if size < 32:
        raise UserError(f"the size of a scene must be at least 32 pixels, so that shapes are recognizable, got {size}")
    if count < 1:
        raise UserError(f"the number of scenes must be at least 1, got {count}")
    rng = np.random.default_rng([seed, PARTS.index(part)])
    return [_generate_scene(rng, part, size) for _ in range(count)]


def _choose_pair(rng: np.random.Generator, part: str) -> list[SceneObject]:
    objects, held_out = list_objects()
    while True:
        pair = [objects[rng.integers(len(objects))] for _ in range(2)]
        if part == "novel":
            pair[rng.integers(2)] = held_out[rng.integers(len(held_out))]
            return pair
        if is_held_out_pair(*pair) == (part == "unseen"):
            return pair


def _generate_scene(rng: np.random.Generator, part: str, size: int) -> Scene:
    pair = _choose_pair(rng, part)
    relation = list(RELATIONS)[rng.integers(len(RELATIONS))]
    radii = [rng.uniform(*LARGE), rng.uniform(*SMALL)]
    centers = _choose_centers(rng, RELATIONS[relation], radii)
    image = np.full((size, size, 3), rng.uniform(15, 75)) + rng.normal(0, 6, (size, size, 3))
    boxes: list[Box] = []
    for (color, shape), (y, x), radius in zip(pair, centers, radii, strict=True):
        rgb = np.clip(np.array(COLORS[color]) + rng.uniform(-18, 18, 3), 0, 255)
        boxes.append(_draw_shape(image, SHAPES[shape], rgb, y * size, x * size, radius * size))
    words = ["a", *pair[0], *relation.split(), "a", *pair[1]]
    word_boxes = [(i, boxes[i > 2]) for i in (1, 2, len(words) - 2, len(words) - 1)]
    return Scene(np.clip(image, 0, 255).astype(np.uint8), " ".join(words), word_boxes)


def _choose_centers(
    rng: np.random.Generator, direction: tuple[int, int], radii: list[float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return two centers (y, x) as fractions of the side; the second lies clearly in `direction` of the first."""
    margin = max(radii) + 0.01
    distance, shift = rng.uniform(sum(radii) + 0.05, 1 - 2 * margin), rng.uniform(-0.12, 0.12)
    dy, dx = (direction[0] * distance, shift) if direction[0] else (shift, direction[1] * distance)
    y = rng.uniform(max(margin, margin - dy), min(1 - margin, 1 - margin - dy))
    x = rng.uniform(max(margin, margin - dx), min(1 - margin, 1 - margin - dx))
    return (y, x), (y + dy, x + dx)


def _draw_shape(
    image: np.ndarray,
    shape: Callable[[np.ndarray, np.ndarray], np.ndarray],
    rgb: np.ndarray,
    y: float,
    x: float,
    radius: float,
) -> Box:
    """Draw a shape into the image with antialiased edges, and return its bounding box."""
    row, column = int(y - radius) - 1, int(x - radius) - 1
    width = int(2 * radius) + 4
    points = (np.arange(width * SUPERSAMPLING) + 0.5) / SUPERSAMPLING
    inside = shape(((points + row - y) / radius)[:, None], ((points + column - x) / radius)[None])
    alpha = inside.reshape(width, SUPERSAMPLING, width, SUPERSAMPLING).mean((1, 3))
    rows, columns = slice(max(row, 0), row + width), slice(max(column, 0), column + width)
    region = image[rows, columns]
    alpha = alpha[rows.start - row :, columns.start - column :][: region.shape[0], : region.shape[1], None]
    region += alpha * (rgb - region)
    return (x - radius, y - radius, x + radius, y + radius)
