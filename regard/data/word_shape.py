"""How words are written, beside which words they are. A vocabulary without capitals is smaller and knows more of each
word, but it has lost that Bush is a man and that AIDS stands for something; here that is kept as one of four shapes.

    0  as other words, and marks        1  Capital first        2  CAPITALS, two letters or more        3  with a digit

Both travel as one number, word + shape · 2²⁴, through everything that only moves tokens about. A model that reads
shapes takes it apart (`parted`); others are never given them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Array = TypeVar("Array", np.ndarray, "Tensor")
NUM_SHAPES = 4
_PLACE = 24  # bits for the word
_SMALL, _CAPITAL, _DIGIT = 1, 2, 3


def find_shapes(text: str, spans: np.ndarray) -> np.ndarray:
    """The shape of what stands between each start and end, spans (n, 2), in the text: (n,) int32."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds()[codes]
    first, last = spans[:, 0], spans[:, 1]

    def count(which: np.ndarray) -> np.ndarray:
        before = np.concatenate(([0], np.cumsum(which)))
        return before[last] - before[first]

    capitals, small, digits = (count(kinds == kind) for kind in (_CAPITAL, _SMALL, _DIGIT))
    first_is_one = np.append(kinds, 0)[first] == _CAPITAL
    found = np.where((capitals > 1) & (small == 0), 2, first_is_one)
    return np.where(digits > 0, 3, found).astype(np.int32)


def pack_shapes(ids: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """Words and their shapes as one number each."""
    return ids | shapes << _PLACE


def unpack_shapes(ids: Array) -> tuple[Array, Array]:
    """Words and shapes of what was joined."""
    return ids & (1 << _PLACE) - 1, ids >> _PLACE


@cache
def _kinds() -> np.ndarray:
    """What kind each character of Unicode is of."""
    found = np.zeros(0x110000, np.uint8)
    for code in range(len(found)):
        char = chr(code)
        found[code] = _CAPITAL if char.isupper() else _SMALL if char.islower() else _DIGIT if char.isdecimal() else 0
    return found
