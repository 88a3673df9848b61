"""Word shapes: capitalization and digits, for models with a lowercase vocabulary.

A lowercase vocabulary is smaller and has seen each word more often, but it cannot distinguish Bush from bush. A word
has one of four shapes:

    0  lowercase, and punctuation        1  Capitalized        2  CAPITALS, at least two letters        3  with a digit

Word id and shape are packed into one number, id + shape · 2²⁴, so that data loading treats them as one token. A model
that uses shapes unpacks them (`unpack_shapes`); other models get plain ids.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Array = TypeVar("Array", np.ndarray, "Tensor")
NUM_SHAPES = 4
_ID_BITS = 24
_LOWERCASE, _CAPITAL, _DIGIT = 1, 2, 3


def find_shapes(text: str, spans: np.ndarray) -> np.ndarray:
    """Return the shape of each character span of a text: spans (n, 2) -> (n,) int32."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    categories = _character_categories()[codes]
    starts, ends = spans[:, 0], spans[:, 1]

    def count(mask: np.ndarray) -> np.ndarray:
        cumulative = np.concatenate(([0], np.cumsum(mask)))
        return cumulative[ends] - cumulative[starts]

    capitals, lowercase, digits = (count(categories == c) for c in (_CAPITAL, _LOWERCASE, _DIGIT))
    is_capitalized = np.append(categories, 0)[starts] == _CAPITAL
    shapes = np.where((capitals > 1) & (lowercase == 0), 2, is_capitalized)
    return np.where(digits > 0, 3, shapes).astype(np.int32)


def pack_shapes(ids: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """Pack word ids and shapes into one number each."""
    return ids | shapes << _ID_BITS


def unpack_shapes(ids: Array) -> tuple[Array, Array]:
    """Return the word ids and the shapes of packed ids."""
    return ids & (1 << _ID_BITS) - 1, ids >> _ID_BITS


@cache
def _character_categories() -> np.ndarray:
    """Return the category of each Unicode character: lowercase, capital, digit or other (0)."""
    categories = np.zeros(0x110000, np.uint8)
    for code in range(len(categories)):
        char = chr(code)
        category = _CAPITAL if char.isupper() else _LOWERCASE if char.islower() else _DIGIT if char.isdecimal() else 0
        categories[code] = category
    return categories
