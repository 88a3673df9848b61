"""How much of a text a model can see. Learned positions have a maximum length.

When a text fills all positions, its second half is read again from position 0, and generation continues from there. So
at least half of the positions always hold context, and the text is rarely read again. What the model sees depends on
the text alone, and not on its batch or on a cache.
"""

from __future__ import annotations

from torch import nn

from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import PositionEncoding


def max_positions(model: nn.Module) -> int | None:
    """The maximum length of the model's input; None if it is unlimited."""
    modules = [module for module in model.modules() if isinstance(module, (PositionEncoding, Mechanism))]
    lengths = [getattr(module, "length", None) for module in modules]
    return min((n for n in lengths if isinstance(n, int)), default=None)


def window_start(length: int, max_length: int | None) -> int:
    """The index of the first visible token of a text of this length, to which a token is to be added."""
    if max_length is None or length <= max_length:
        return 0
    half = (max_length + 1) // 2
    return -(-(length - max_length) // half) * half
