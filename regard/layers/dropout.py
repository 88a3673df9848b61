"""Dropout (Srivastava et al. 2014) that does not wait for its chances.

    y = x · keep / (1 - p),   keep ~ Bernoulli(1 - p)

On a CPU torch draws a whole random number for each place, which took a tenth of a training step. Here a random
number of 64 bits serves four places, and p is rounded to a 65,536th. Elsewhere it is torch's own. Drawn from torch's
generator, so that the same seed drops the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_STEPS = 1 << 16


class Dropout(nn.Dropout):
    """As nn.Dropout, several times as fast on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        dropped = round(self.p * _STEPS)
        if not self.training or not dropped:
            return input
        if input.device.type != "cpu" or dropped == _STEPS:
            return super().forward(input)
        n = input.numel()
        drawn = torch.empty(-(-n // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)
        keep = drawn[:n].view(input.shape) >= dropped - _STEPS // 2
        return input * keep.to(input.dtype).mul_(_STEPS / (_STEPS - dropped))
