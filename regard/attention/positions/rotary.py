"""Rotary positions (Su et al. 2021, section 3.2.2): queries and keys are rotated by their position.

    (x_a, x_b) -> (x_a cos pω_i - x_b sin pω_i,  x_b cos pω_i + x_a sin pω_i)        ω_i = base^(-2i/d)

The score of a rotated query and a rotated key then depends on the distance of their positions only. The paper pairs
neighbours, (x_2i, x_2i+1); here the pairs are (x_i, x_i+d/2), the half-split layout of GPT-NeoX and Llama. The two
layouts differ by a fixed permutation of the key's width, which trained projections absorb.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.sinusoidal import frequencies
from regard.attention.token_positions import PositionIds, position_tensor
from regard.errors import UserError


def rotary_table(position_ids: Tensor, width: int, base: float = 10_000.0) -> tuple[Tensor, Tensor]:
    """cos and sin of these positions, each (..., width) in float64. The first half of the sines is negated."""
    angle = position_ids.double()[..., None] * frequencies(width, base, position_ids.device)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


class Rotary(PositionEncoding):
    """Rotation of queries and keys.

    Args:
        dim: Width of the model.
        heads: Number of heads.
        base: Base of the frequencies.
    """

    name, title, kind = "rotary", "rotary (Su 2021)", "rotate"

    def __init__(self, dim: int, heads: int, *, base: float = 10_000.0):
        super().__init__(dim, heads)
        self.base = base
        self._cache: dict[tuple[int, torch.dtype, torch.device], tuple[Tensor, Tensor]] = {}

    def check_key_width(self, key_width: int) -> None:
        if key_width % 2:
            raise UserError(
                f"rotary positions rotate pairs and need an even key width; given {key_width}. Choose dim and heads "
                "such that dim / heads is even, or set an even key_width"
            )

    def rotate(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        width = x.shape[-1]
        self.check_key_width(width)
        if isinstance(position_ids, range) and position_ids.start >= 0:
            cos, sin = self._cached_table(x, position_ids)
        else:
            cos, sin = rotary_table(position_tensor(position_ids, x.device), width, self.base)
            if cos.dim() == 3:  # (b, n, width): the same for every head
                cos, sin = cos[:, None], sin[:, None]
            cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        return torch.addcmul(x * cos, x.roll(width // 2, -1), sin)

    def _cached_table(self, x: Tensor, position_ids: range) -> tuple[Tensor, Tensor]:
        key = x.shape[-1], x.dtype, x.device
        table = self._cache.get(key)  # read once: another thread may replace it by a shorter one
        if table is None or len(table[0]) < position_ids.stop:
            # A table that is first computed for inference must also serve training, which cannot use inference tensors.
            with torch.inference_mode(False):
                positions = torch.arange(max(256, 2 * position_ids.stop), device=x.device)
                cos, sin = rotary_table(positions, x.shape[-1], self.base)
                self._cache[key] = table = cos.to(x.dtype), sin.to(x.dtype)
        cos, sin = table
        return cos[position_ids.start : position_ids.stop], sin[position_ids.start : position_ids.stop]
