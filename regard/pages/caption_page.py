"""The page that `regard caption` writes: each image, its caption, and an attention map for each word."""

from __future__ import annotations

from typing import Any

from regard.errors import UserError
from regard.pages.assets import render_document

REQUIRED = ("name", "caption", "words", "score", "rows", "columns", "maps", "image")


def render_caption_page(look: dict[str, Any]) -> str:
    """Render captioned images.

    Args:
        look: {"title", "model", "run", "notes", "images"}. Each image has the keys in `REQUIRED`: its `maps` are rows x
            columns weights for each word, and `image` is a data URI. `faithfulness`, if it was measured, is
            {"all": report, "words": [report, ...]}.
    """
    for image in look["images"]:
        missing = [key for key in REQUIRED if key not in image]
        if missing:
            raise UserError(f"a captioned image lacks {', '.join(missing)}")
        num_cells = image["rows"] * image["columns"]
        if len(image["maps"]) != len(image["words"]) or any(len(weights) != num_cells for weights in image["maps"]):
            raise UserError(f"{image['name']}: each word needs a map of {image['rows']} x {image['columns']} cells")
        if not image["image"].startswith("data:image/"):
            raise UserError(f"{image['name']}: the image must be a data URI")
        report = image.setdefault("faithfulness", None)
        if report is not None and len(report["words"]) not in (0, len(image["words"])):
            raise UserError(f"{image['name']}: {len(report['words'])} of {len(image['words'])} words were measured")
    light = [{key: value for key, value in image.items() if key != "image"} for image in look["images"]]
    css, js = ["theme.css", "stage.css", "caption.css"], ["hover.js", "image_overlay.js", "metrics.js", "caption.js"]
    return render_document("caption.html.j2", css=css, js=js, look=look, light=light)
