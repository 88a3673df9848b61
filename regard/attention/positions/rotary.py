"""Rotary positions (Su et al. 2021, section 3.2.2): queries and keys are turned by where they stand.

    (x_a, x_b) -> (x_a cos pω_i - x_b sin pω_i,  x_b cos pω_i + x_a sin pω_i)        ω_i = base^(-2i/d)

so that the score of a turned query and a turned key depends on the distance of their places alone. The paper pairs
neighbours, (x_2i, x_2i+1); here the pairs are (x_i, x_i+d/2), the half-split layout of GPT-NeoX and Llama. The two
differ by a fixed reordering of the key's width, which trained projections absorb.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.sinusoidal import frequencies
from regard.attention.token_positions import PositionIds, position_tensor
from regard.errors import UserError

_Key = tuple[int, torch.dtype, torch.device]


def table(position_ids: Tensor, width: int, base: float = 10_000.0) -> tuple[Tensor, Tensor]:
    """cos and sin at these places, each (..., width) in float64; the first half of the sines has its sign turned."""
    angle = position_ids.double()[..., None] * frequencies(width, base, position_ids.device)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


class Rotary(PositionEncoding):
    name, title, kind = "rotary", "rotary (Su 2021)", "rotate"

    def __init__(self, dim: int, heads: int, *, base: float = 10_000.0):
        super().__init__(dim, heads)
        self.base = base
        self._cache: dict[_Key, tuple[Tensor, Tensor]] = {}

    def check_width(self, key_width: int) -> None:
        if key_width % 2:
            raise UserError(
                f"rotary positions turn pairs and want an even key width; given {key_width}. Choose dim and heads such "
                "that dim / heads is even, or give the mechanism an even key_width"
            )

    def rotate(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        width = x.shape[-1]
        self.check_width(width)
        cos, sin = (
            self._stretch(x, position_ids)
            if isinstance(position_ids, range) and position_ids.start >= 0
            else self._anywhere(x, position_ids)
        )
        return torch.addcmul(x * cos, x.roll(width // 2, -1), sin)

    def _stretch(self, x: Tensor, position_ids: range) -> tuple[Tensor, Tensor]:
        key = x.shape[-1], x.dtype, x.device
        kept = self._cache.get(key)  # looked up once: another thread may put a shorter one there
        if kept is None or len(kept[0]) < position_ids.stop:
            # A table first made while predicting must also serve training, which cannot use inference tensors.
            with torch.inference_mode(False):
                qk_positions = torch.arange(max(256, 2 * position_ids.stop), device=x.device)
                cos, sin = table(qk_positions, x.shape[-1], self.base)
                self._cache[key] = kept = cos.to(x.dtype), sin.to(x.dtype)
        cos, sin = kept
        return cos[position_ids.start : position_ids.stop], sin[position_ids.start : position_ids.stop]

    def _anywhere(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        cos, sin = table(position_tensor(position_ids, x.device), x.shape[-1], self.base)
        if cos.dim() == 3:  # (b, n, width): the same for every head
            cos, sin = cos[:, None], sin[:, None]
        return cos.to(x.dtype), sin.to(x.dtype)
