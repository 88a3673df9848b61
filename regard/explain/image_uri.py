"""Pictures as a page shows them: as they are, and not as small as they were read."""

from __future__ import annotations

import base64
import io

import numpy as np

SIDE = 512  # pixels of a picture on a page, at most


def side(read: int) -> int:
    """A multiple of what the model reads, so that cells end where pixels do."""
    return max(1, SIDE // read) * read


def embedded(picture: np.ndarray) -> str:
    """A picture (height, width, 3) of bytes as an address that holds it."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
