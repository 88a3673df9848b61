"""The page that `regard caption` writes: a picture, its caption, and a map of the picture for each word."""

from __future__ import annotations

from typing import Any

from regard.errors import UserError
from regard.pages.assets import document

WANTED = ("name", "caption", "words", "score", "rows", "columns", "maps", "picture")


def page(look: dict[str, Any]) -> str:
    """`look` holds title, model, run, notes and pictures; each of these has a name, a caption with its words, a map of
    rows x columns for each word, and the picture itself as a data address; `faithfulness`, where it was measured, is
    {"all": ..., "words": [...]}, each a sentence and its figures."""
    for one in look["pictures"]:
        missing = [key for key in WANTED if key not in one]
        if missing:
            raise UserError(f"a captioned picture without {', '.join(missing)} was given to the page")
        cells = one["rows"] * one["columns"]
        if len(one["maps"]) != len(one["words"]) or any(len(map_) != cells for map_ in one["maps"]):
            raise UserError(f"{one['name']}: each word wants a map of {one['rows']} x {one['columns']} cells")
        if not one["picture"].startswith("data:image/"):
            raise UserError(f"{one['name']}: the picture must be part of the page")
        believed = one.setdefault("faithfulness", None)
        if believed is not None and len(believed["words"]) not in (0, len(one["words"])):
            raise UserError(f"{one['name']}: {len(believed['words'])} of {len(one['words'])} words were measured")
    light = [{key: value for key, value in one.items() if key != "picture"} for one in look["pictures"]]
    css, js = ["theme.css", "stage.css", "caption.css"], ["hover.js", "veil.js", "measures.js", "caption.js"]
    return document("caption.html.j2", css=css, js=js, look=look, light=light)
