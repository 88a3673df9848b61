"""ALiBi, attention with linear biases (Press, Smith & Lewis 2022, section 3).

    score += -slope_h · |i - j|        slope_h = 2^(-8 h / heads), h = 1..heads

The paper is causal; |i - j| is the same there and also serves reading in both directions. Where the heads are no power
of two, the slopes are those of the power below and every second one of the power above, as in the authors' code.
Nothing is trained, and no length is the last.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.toeplitz_bias import distances_between, spread
from regard.attention.token_positions import PositionIds, distances


def slopes(heads: int) -> list[float]:
    """One slope for each head."""
    below = 2 ** math.floor(math.log2(heads))
    first = [2.0 ** (-8 * (i + 1) / below) for i in range(below)]
    return first + [2.0 ** (-4 * (2 * i + 1) / below) for i in range(heads - below)]


class Alibi(PositionEncoding):
    name, title, kind = "alibi", "ALiBi, linear biases (Press 2022)", "bias"
    by_distance = True

    slopes: Tensor

    def __init__(self, dim: int, heads: int):
        super().__init__(dim, heads)
        self.register_buffer("slopes", torch.tensor(slopes(heads)), persistent=False)

    def bias(self, q_pos: PositionIds, k_pos: PositionIds) -> Tensor:
        if isinstance(q_pos, range) and isinstance(k_pos, range):
            away = distances_between(q_pos, k_pos, self.slopes.device).abs()
            return spread(-self.slopes[:, None] * away, len(k_pos))
        away = distances(q_pos, k_pos, self.slopes.device).abs()
        return -self.slopes[:, None, None] * (away[:, None] if away.dim() == 3 else away[None, None])
