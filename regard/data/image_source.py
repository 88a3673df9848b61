"""Read images (regard.data.image_files) or precomputed image features (regard.data.image_features)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from regard.data import image_features, image_files
from regard.data.image_files import ImageArray, ImageSource


def contains_images(path: str | Path) -> bool:
    """Return whether a folder or file contains images or features."""
    return image_files.contains_images(path) or image_features.contains_features(path)


def open_image_source(path: str | Path) -> ImageSource:
    """Open a folder or file of images or features."""
    is_features = image_features.contains_features(path)
    return image_features.open_features(path) if is_features else image_files.open_images(path)


def read_images_or_features(
    source: ImageSource, names: Iterable[str], size: int, on_progress: Callable[[int], Any] | None = None
) -> ImageArray:
    """Read images, resized to (size, size), or features, whose shape is unchanged."""
    if source.features:
        return image_features.read_features(source, names, on_progress)
    return image_files.read_images(source, names, size, on_progress)
