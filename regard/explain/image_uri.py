"""Images inside a page, as data URIs."""

from __future__ import annotations

import base64
import io

import numpy as np

MAX_SIZE = 512  # pixels of an image on a page


def display_size(model_size: int) -> int:
    """Size of an image on a page: a multiple of the model's input, so that grid cells end at pixels."""
    return max(1, MAX_SIZE // model_size) * model_size


def to_data_uri(image: np.ndarray) -> str:
    """Encode an image (height, width, 3) of bytes as a JPEG data URI."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
