"""An image under its attention weights, as SVG or PNG: dark without attention, orange where it is highest."""

from __future__ import annotations

import base64
import io
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from regard.errors import UserError
from regard.pages.schema import check_look

SIZE = 512
DARK, WARM, HUE = 0.72, 0.4, (255, 150, 20)  # as in image_overlay.js


def overlay_colors(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Color (rows, columns, 3) from 0 to 255 and opacity (rows, columns) of each cell."""
    relative = weights / (weights.max(initial=0.0) or 1.0)
    opacity = DARK * (1 - relative) + WARM * relative
    return np.array(HUE) * (WARM * relative / opacity)[..., None], opacity


def overlay_svg(look: dict[str, Any]) -> str:
    """The image and a cell with its weight for each grid cell."""
    uri, weights = _image_and_weights(look)
    colors, opacity = overlay_colors(weights)
    h, w = (SIZE / count for count in weights.shape)
    image = f'<image width="{SIZE}" height="{SIZE}" preserveAspectRatio="none" href="{uri}"/>' if uri else ""
    cells = [
        f'<rect x="{c * w:.2f}" y="{r * h:.2f}" width="{w:.2f}" height="{h:.2f}" '
        f'fill="rgb({",".join(f"{part:.0f}" for part in colors[r, c])})" fill-opacity="{opacity[r, c]:.4f}">'
        f"<title>row {r + 1}, column {c + 1}: {weight:.4g}</title></rect>"
        for (r, c), weight in np.ndenumerate(weights)
    ]
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" '
        f'height="{SIZE}" viewBox="0 0 {SIZE} {SIZE}">\n<title>{escape(look["title"])}</title>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{image}\n' + "\n".join(cells) + "\n</svg>\n"
    )


def overlay_png(look: dict[str, Any]) -> bytes:
    """The image under its weights as PNG."""
    from PIL import Image

    uri, weights = _image_and_weights(look)
    pixels = np.full((SIZE, SIZE, 3), 255.0)
    if uri:
        with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
            pixels = np.asarray(image.convert("RGB").resize((SIZE, SIZE)), float)
    row_of, column_of = (np.arange(SIZE) * count // SIZE for count in weights.shape)
    colors, opacity = (part[row_of][:, column_of] for part in overlay_colors(weights))
    blended = pixels * (1 - opacity[..., None]) + colors * opacity[..., None]
    file = io.BytesIO()
    Image.fromarray(blended.round().astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def _image_and_weights(look: dict[str, Any]) -> tuple[str, np.ndarray]:
    """Data URI of the image, empty if there is none, and the weights of its grid."""
    look = check_look(look)
    if look["weights"] is None:
        raise UserError("there is nothing to draw: no cell of this image has a weight")
    axis = look["axes"][look["image_axis"]]
    return axis.get("image") or "", np.array(look["weights"], float).reshape(axis["grid"])
