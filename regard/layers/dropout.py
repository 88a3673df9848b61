"""Dropout (Srivastava et al. 2014) with a faster random number generator on a CPU.

    y = x · keep / (1 - p),   keep ~ Bernoulli(1 - p)

On a CPU torch draws one random number for each element, which took a tenth of a training step. Here one number of 64
bits serves four elements, and p is rounded to a multiple of 1/65,536. On other devices it is torch's dropout. The
numbers come from torch's generator, so that the same seed drops the same elements.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LEVELS = 1 << 16


class Dropout(nn.Dropout):
    """nn.Dropout, several times as fast on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        threshold = round(self.p * _LEVELS)
        if not self.training or not threshold:
            return input
        if input.device.type != "cpu" or threshold == _LEVELS:
            return super().forward(input)
        n = input.numel()
        bits = torch.empty(-(-n // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)
        keep = bits[:n].view(input.shape) >= threshold - _LEVELS // 2
        return input * keep.to(input.dtype).mul_(_LEVELS / (_LEVELS - threshold))
