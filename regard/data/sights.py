"""What is looked at, wherever it comes from: pictures (data/images.py), or their features, computed before
(data/features.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from regard.data import features, images
from regard.data.images import Files, Pictures


def holds(path: str | Path) -> bool:
    """Whether this is a folder, or a file, of pictures or of features."""
    return images.holds(path) or features.holds(path)


def files(path: str | Path) -> Files:
    return features.files(path) if features.holds(path) else images.files(path)


def read(source: Files, names: Iterable[str], size: int, told: Callable[[int], Any] | None = None) -> Pictures:
    """Pictures of bytes, squeezed to `size`, or features as they are."""
    return features.read(source, names, told) if source.features else images.read(source, names, size, told)
