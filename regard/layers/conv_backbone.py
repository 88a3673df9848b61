"""A small convolutional net that is trained along: a picture to a grid of vectors.

    picture (b, height, width, 3), 0 to 255        x = act(norm(conv(x))), each stage half as wide and half as high
    grid    (b, height / 2^s, width / 2^s, dim)    x = x + act(norm(conv(x))), `blocks` times in each later stage

Kernels that halve are 4 wide, those that do not 3: each place of the grid then sees the picture around the cell that it
is drawn at, and not half a pixel of each stage up and to the left of it.

Norms are over groups of channels within one picture (Wu & He 2018), so that a picture's grid does not hang on the
others of its batch, and averaged weights need no statistics of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.errors import UserError

MEAN, SPREAD = 115.0, 65.0
"""Of photographs, roughly: what is read lies around 0."""


class ConvBackbone(nn.Module):
    def __init__(self, channels: Sequence[int], dim: int, *, blocks: int = 1):
        super().__init__()
        if not channels or min(channels) < 1 or blocks < 0:
            raise UserError(f"an eye wants channels of 1 or more and blocks of 0 or more; given {channels}, {blocks}")
        check_positive("the eye", dim=dim)
        self.shrinks = 2 ** len(channels)
        widths = [3, *channels]
        self.stages = nn.ModuleList(
            nn.ModuleList([ConvBlock(a, b, 2), *(ConvBlock(b, b, 1) for _ in range(blocks if number else 0))])
            for number, (a, b) in enumerate(zip(widths, channels, strict=False))
        )
        self.out = nn.Linear(channels[-1], dim)

    def forward(self, pictures: Tensor) -> Tensor:
        """(b, height, width, 3) of bytes or numbers up to 255 to (b, rows, columns, dim)."""
        if pictures.dim() != 4 or pictures.shape[-1] != 3 or min(pictures.shape[1:3]) < self.shrinks:
            raise UserError(
                f"pictures are (batch, height, width, 3), {self.shrinks} high and wide at least; "
                f"given shape {tuple(pictures.shape)}"
            )
        x = ((pictures.to(self.out.weight.dtype) - MEAN) / SPREAD).permute(0, 3, 1, 2)
        for stage in self.stages:
            for part in stage:  # type: ignore[attr-defined]
                x = part(x)
        return self.out(x.permute(0, 2, 3, 1))


class ConvBlock(nn.Module):
    """act(norm(conv(x))), added to x where it has the same shape. The kernel is kept as a matrix (after, 9 or 16 ·
    before), so that an optimizer for matrices takes it for one; as it is laid out, nothing is copied."""

    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.side, self.stride = 4 if stride == 2 else 3, stride
        inside = self.side**2 * before
        self.weight = nn.Parameter(torch.randn(after, inside) * (2 / inside) ** 0.5)
        self.norm = nn.GroupNorm(_groups(after), after)

    def forward(self, x: Tensor) -> Tensor:
        kernel = self.weight.view(len(self.weight), self.side, self.side, -1).permute(0, 3, 1, 2)
        y = F.relu(self.norm(F.conv2d(x, kernel, stride=self.stride, padding=1)))
        return x + y if self.stride == 1 else y


def _groups(channels: int) -> int:
    """About eight channels a group."""
    return next(n for n in range(max(1, channels // 8), 0, -1) if channels % n == 0)
