"""A small convolutional network that is trained with the model: an image to a grid of vectors.

    image (b, height, width, 3), 0 to 255          x = act(norm(conv(x))), each stage halves width and height
    grid  (b, height / 2^s, width / 2^s, dim)      x = x + act(norm(conv(x))), `blocks` times in each later stage

Kernels with stride 2 have width 4, the others 3. Each grid cell is then centered on its part of the image; with odd
kernels each stage would shift it by half a pixel up and to the left.

Group norms (Wu & He 2018) act within one image, so that its grid does not depend on the rest of the batch, and an
exponential moving average of the weights needs no statistics.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.errors import UserError

PIXEL_MEAN, PIXEL_STD = 115.0, 65.0
"""Approximate statistics of photographs, to normalize the input."""


class ConvBackbone(nn.Module):
    """Convolutional network from images to grids of vectors.

    Args:
        channels: Channels of each stage.
        dim: Width of the output vectors.
        blocks: Residual blocks of each stage after the first.
    """

    def __init__(self, channels: Sequence[int], dim: int, *, blocks: int = 1):
        super().__init__()
        if not channels or min(channels) < 1 or blocks < 0:
            raise UserError(f"channels must be 1 or more, and blocks 0 or more; given {channels}, blocks={blocks}")
        check_positive("convolutional backbone", dim=dim)
        self.downsampling = 2 ** len(channels)
        self.stages = nn.ModuleList(
            nn.ModuleList([ConvBlock(a, b, 2), *(ConvBlock(b, b, 1) for _ in range(blocks if number else 0))])
            for number, (a, b) in enumerate(zip([3, *channels], channels, strict=False))
        )
        self.out = nn.Linear(channels[-1], dim)

    def forward(self, images: Tensor) -> Tensor:
        """Images (b, height, width, 3), 0 to 255, to grids (b, rows, columns, dim)."""
        if images.dim() != 4 or images.shape[-1] != 3 or min(images.shape[1:3]) < self.downsampling:
            raise UserError(
                f"images must have shape (batch, height, width, 3) with height and width of at least "
                f"{self.downsampling}; given {tuple(images.shape)}"
            )
        x = ((images.to(self.out.weight.dtype) - PIXEL_MEAN) / PIXEL_STD).permute(0, 3, 1, 2)
        for stage in self.stages:
            for block in stage:  # type: ignore[attr-defined]
                x = block(x)
        return self.out(x.permute(0, 2, 3, 1))


class ConvBlock(nn.Module):
    """relu(norm(conv(x))), added to x if the stride is 1.

    The kernel is stored as a matrix (out_channels, 9 or 16 · in_channels), so that optimizers treat it as one. The view
    as a kernel needs no copy.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__()
        self.kernel_size, self.stride = 4 if stride == 2 else 3, stride
        fan_in = self.kernel_size**2 * in_channels
        self.weight = nn.Parameter(torch.randn(out_channels, fan_in) * (2 / fan_in) ** 0.5)
        self.norm = nn.GroupNorm(_num_groups(out_channels), out_channels)

    def forward(self, x: Tensor) -> Tensor:
        kernel = self.weight.view(len(self.weight), self.kernel_size, self.kernel_size, -1).permute(0, 3, 1, 2)
        y = F.relu(self.norm(F.conv2d(x, kernel, stride=self.stride, padding=1)))
        return x + y if self.stride == 1 else y


def _num_groups(channels: int) -> int:
    """Number of groups of about eight channels."""
    return next(n for n in range(max(1, channels // 8), 0, -1) if channels % n == 0)
