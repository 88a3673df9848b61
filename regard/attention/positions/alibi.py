"""ALiBi, attention with linear biases (Press, Smith & Lewis 2022, section 3).

    score += -slope_h · |i - j|        slope_h = 2^(-8 h / heads), h = 1..heads

The paper is about causal attention; |i - j| is the same there and also works in both directions. If the number of heads
is not a power of two, the slopes are those of the power below and every second one of the power above, as in the
authors' code. There are no parameters and no maximal length.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.toeplitz_bias import distances_between, expand_to_pairs
from regard.attention.token_positions import PositionIds, distances


def alibi_slopes(heads: int) -> list[float]:
    """The slope of each head."""
    power = 2 ** math.floor(math.log2(heads))
    first = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    return first + [2.0 ** (-4 * (2 * i + 1) / power) for i in range(heads - power)]


class Alibi(PositionEncoding):
    """A linear penalty on the distance, with a fixed slope for each head."""

    name, title, kind = "alibi", "ALiBi, linear biases (Press 2022)", "bias"
    distance_only = True

    slopes: Tensor

    def __init__(self, dim: int, heads: int):
        super().__init__(dim, heads)
        self.register_buffer("slopes", torch.tensor(alibi_slopes(heads)), persistent=False)

    def bias(self, q_pos: PositionIds, k_pos: PositionIds) -> Tensor:
        if isinstance(q_pos, range) and isinstance(k_pos, range):
            distance = distances_between(q_pos, k_pos, self.slopes.device).abs()
            return expand_to_pairs(-self.slopes[:, None] * distance, len(k_pos))
        distance = distances(q_pos, k_pos, self.slopes.device).abs()
        return -self.slopes[:, None, None] * (distance[:, None] if distance.dim() == 3 else distance[None, None])
