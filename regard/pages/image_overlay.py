"""A picture under the weights of its places, as a drawing (SVG) or painted (PNG): dark where nothing was regarded, warm
where most was, as on the page."""

from __future__ import annotations

import base64
import io
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from regard.errors import UserError
from regard.pages.schema import checked

SIDE = 512
DARK, WARM, HUE = 0.72, 0.4, (255, 150, 20)  # as in veil.js


def veil(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of weights (rows, columns) a colour for each, 0 to 255, and how much of the picture it hides, 0 to 1."""
    share = weights / (weights.max(initial=0.0) or 1.0)
    whole = DARK * (1 - share) + WARM * share
    return np.array(HUE) * (WARM * share / whole)[..., None], whole


def overlay_svg(look: dict[str, Any]) -> str:
    """The picture inside a drawing, and a cell for each place that tells its weight."""
    address, weights = _parts(look)
    colours, whole = veil(weights)
    h, w = (SIDE / count for count in weights.shape)
    seen = f'<image width="{SIDE}" height="{SIDE}" preserveAspectRatio="none" href="{address}"/>' if address else ""
    cells = [
        f'<rect x="{c * w:.2f}" y="{r * h:.2f}" width="{w:.2f}" height="{h:.2f}" '
        f'fill="rgb({",".join(f"{part:.0f}" for part in colours[r, c])})" fill-opacity="{whole[r, c]:.4f}">'
        f"<title>row {r + 1}, column {c + 1}: {weight:.4g}</title></rect>"
        for (r, c), weight in np.ndenumerate(weights)
    ]
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE}" '
        f'height="{SIDE}" viewBox="0 0 {SIDE} {SIDE}">\n<title>{escape(look["title"])}</title>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{seen}\n' + "\n".join(cells) + "\n</svg>\n"
    )


def overlay_png(look: dict[str, Any]) -> bytes:
    """The same, painted."""
    from PIL import Image

    address, weights = _parts(look)
    sheet = np.full((SIDE, SIDE, 3), 255.0)
    if address:
        with Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))) as image:
            sheet = np.asarray(image.convert("RGB").resize((SIDE, SIDE)), float)
    down, across = (np.arange(SIDE) * count // SIDE for count in weights.shape)
    colours, whole = (part[down][:, across] for part in veil(weights))
    painted = sheet * (1 - whole[..., None]) + colours * whole[..., None]
    file = io.BytesIO()
    Image.fromarray(painted.round().astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def _parts(look: dict[str, Any]) -> tuple[str, np.ndarray]:
    """The picture's address, empty where there is none, and the weights as a grid."""
    look = checked(look)
    if look["weights"] is None:
        raise UserError("there is nothing to draw: no place of this picture was given a weight")
    axis = look["axes"][look["cells"]]
    return axis.get("picture") or "", np.array(look["weights"], float).reshape(axis["grid"])
