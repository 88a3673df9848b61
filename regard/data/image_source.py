"""What is looked at, wherever it comes from: pictures (data/images.py), or their features, computed before
(data/features.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from regard.data import image_features, image_files
from regard.data.image_files import ImageSource, ImageArray


def contains_images(path: str | Path) -> bool:
    """Whether this is a folder, or a file, of pictures or of features."""
    return image_files.contains_images(path) or image_features.contains_features(path)


def open_image_source(path: str | Path) -> ImageSource:
    return image_features.open_features(path) if image_features.contains_features(path) else image_files.open_images(path)


def read_images_or_features(source: ImageSource, names: Iterable[str], size: int, told: Callable[[int], Any] | None = None) -> ImageArray:
    """Pictures of bytes, squeezed to `size`, or features as they are."""
    return image_features.read_features(source, names, told) if source.features else image_files.read_images(source, names, size, told)
