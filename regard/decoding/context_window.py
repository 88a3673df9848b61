"""How much of a text a model can see: learned positions have a last place.

When a text fills all places, its last half is read anew from place 0 on, and the model goes on from there. So at least
half of the places always say what came before, and reading anew is rare. What is seen hangs on the text alone, not on
its batch or on a cache.
"""

from __future__ import annotations

from torch import nn

from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import PositionEncoding


def places(model: nn.Module) -> int | None:
    """How many places the model has; None where there is no last one."""
    parts = [module for module in model.modules() if isinstance(module, (PositionEncoding, Mechanism))]
    lengths = [getattr(part, "length", None) for part in parts]
    return min((n for n in lengths if isinstance(n, int)), default=None)


def start(length: int, most: int | None) -> int:
    """Where the part that is seen begins, of a text of this length to which a word is to be added."""
    if most is None or length <= most:
        return 0
    half = (most + 1) // 2
    return -(-(length - most) // half) * half
