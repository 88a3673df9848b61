"""What is looked at, wherever it comes from: pictures (data/images.py), or their features, computed before
(data/features.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from regard.data import image_features, image_files
from regard.data.image_files import Files, Pictures


def holds(path: str | Path) -> bool:
    """Whether this is a folder, or a file, of pictures or of features."""
    return image_files.holds(path) or image_features.holds(path)


def files(path: str | Path) -> Files:
    return image_features.files(path) if image_features.holds(path) else image_files.files(path)


def read(source: Files, names: Iterable[str], size: int, told: Callable[[int], Any] | None = None) -> Pictures:
    """Pictures of bytes, squeezed to `size`, or features as they are."""
    return image_features.read(source, names, told) if source.features else image_files.read(source, names, size, told)
