"""Random changes of training images: crop, mirror, brightness, cutout.

They depend on the seeds only, so that the same epoch and items give the same images again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.tasks.image_settings import AugmentSettings

GRAY = 115.0


def augment_images(
    images: np.ndarray, settings: AugmentSettings, seeds: Sequence[int], keep_sides: np.ndarray | None = None
) -> Tensor:
    """Change images at random.

    Args:
        images: (b, height, width, 3), uint8.
        settings: What may change.
        seeds: Seeds of the random numbers.
        keep_sides: (b,) bool; these images are not mirrored, because their captions mention left or right.

    Returns:
        (b, height, width, 3): floats from 0 to 255; `images` themselves if nothing may change.
    """
    original = torch.from_numpy(np.array(images))
    if settings == AugmentSettings():
        return original
    rng, b = np.random.default_rng(list(seeds)), len(images)
    x = original.float()
    if settings.zoom < 1 or settings.flip:
        x = _crop_and_flip(x, settings, rng, keep_sides)
    if settings.light:
        bounds, shape = (1 - settings.light, 1 + settings.light), (b, 1, 1, 1)
        brightness, contrast = rng.uniform(*bounds, shape), rng.uniform(*bounds, shape)
        tint = 0.5 + 0.5 * rng.uniform(*bounds, (b, 1, 1, 3))
        mean = x.mean((1, 2, 3), keepdim=True)
        x = (mean + (x - mean) * _float_tensor(contrast)) * _float_tensor(brightness * tint)
    if settings.hide:
        side = max(1, round(settings.hide * x.shape[1]))
        for i, (row, column) in enumerate(rng.integers(0, x.shape[1], (b, 2)).tolist()):
            rows = slice(max(0, row - side // 2), row + side // 2 + 1)
            x[i, rows, max(0, column - side // 2) : column + side // 2 + 1] = GRAY
    return x.clamp(0, 255)


def _crop_and_flip(
    x: Tensor, settings: AugmentSettings, rng: np.random.Generator, keep_sides: np.ndarray | None
) -> Tensor:
    """Crop a random square, resize it to the whole image, and mirror some."""
    b = len(x)
    scale = rng.uniform(settings.zoom, 1, b)
    shift = rng.uniform(-1, 1, (b, 2)) * (1 - scale)[:, None]
    direction = np.where(rng.random(b) < 0.5, -1.0, 1.0) if settings.flip else np.ones(b)
    direction = direction if keep_sides is None else np.where(keep_sides, 1.0, direction)
    affine = np.zeros((b, 2, 3), np.float32)
    affine[:, 0, 0], affine[:, 1, 1], affine[:, :, 2] = scale * direction, scale, shift
    grid = F.affine_grid(torch.from_numpy(affine), [b, 3, *x.shape[1:3]], align_corners=False)
    sampled = F.grid_sample(x.permute(0, 3, 1, 2), grid, padding_mode="border", align_corners=False)
    return sampled.permute(0, 2, 3, 1)


def _float_tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values, np.float32))
