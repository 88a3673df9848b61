"""Pictures as they might have been taken too: a part of them, mirrored, in another light. For training only.

Drawn from the numbers given, so that the same epoch and items give the same pictures again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UserError


@dataclass(frozen=True)
class Augment:
    """`zoom`: the least share of the side that is seen (1: all of it); `flip`: half of them mirrored, which makes left
    right; `light`: by which share brightness, contrast and colours may change; `hide`: the side of a grey square, as a
    share (DeVries & Taylor 2017, cutout)."""

    zoom: float = 1.0
    flip: bool = False
    light: float = 0.0
    hide: float = 0.0

    def check(self) -> None:
        if not 0 < self.zoom <= 1:
            raise UserError(f"augment.zoom is a share above 0 up to 1, and was given {self.zoom}")
        for name in ("light", "hide"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"augment.{name} is a share from 0 to below 1, and was given {getattr(self, name)}")

    def __call__(self, pictures: np.ndarray, numbers: Sequence[int], sided: np.ndarray | None = None) -> Tensor:
        """(b, height, width, 3) of bytes to the same shape, of numbers up to 255 where anything changes. `sided` (b,)
        are not mirrored: what is said of them would no longer be true."""
        given = torch.from_numpy(np.array(pictures))
        if self == Augment():
            return given
        random, b = np.random.default_rng(list(numbers)), len(pictures)
        x = given.float()
        if self.zoom < 1 or self.flip:
            x = self._framed(x, random, sided)
        if self.light:
            about, shape = (1 - self.light, 1 + self.light), (b, 1, 1, 1)
            gain, contrast = random.uniform(*about, shape), random.uniform(*about, shape)
            tint = 0.5 + 0.5 * random.uniform(*about, (b, 1, 1, 3))
            mean = x.mean((1, 2, 3), keepdim=True)
            x = (mean + (x - mean) * _as(contrast)) * _as(gain * tint)
        if self.hide:
            x = self._hidden(x, random)
        return x.clamp(0, 255)

    def _framed(self, x: Tensor, random: np.random.Generator, sided: np.ndarray | None) -> Tensor:
        """A square part of each, at a random place, as large as the whole; some mirrored."""
        b = len(x)
        share = random.uniform(self.zoom, 1, b)
        slip = random.uniform(-1, 1, (b, 2)) * (1 - share)[:, None]
        side = np.where(random.random(b) < 0.5, -1.0, 1.0) if self.flip else np.ones(b)
        side = side if sided is None else np.where(sided, 1.0, side)
        turn = np.zeros((b, 2, 3), np.float32)
        turn[:, 0, 0], turn[:, 1, 1], turn[:, :, 2] = share * side, share, slip
        where = F.affine_grid(torch.from_numpy(turn), [b, 3, *x.shape[1:3]], align_corners=False)
        moved = F.grid_sample(x.permute(0, 3, 1, 2), where, padding_mode="border", align_corners=False)
        return moved.permute(0, 2, 3, 1)

    def _hidden(self, x: Tensor, random: np.random.Generator) -> Tensor:
        side = max(1, round(self.hide * x.shape[1]))
        for i, (y, c) in enumerate(random.integers(0, x.shape[1], (len(x), 2)).tolist()):
            x[i, max(0, y - side // 2) : y + side // 2 + 1, max(0, c - side // 2) : c + side // 2 + 1] = 115.0
        return x


def _as(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values, np.float32))
