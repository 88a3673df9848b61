"""A drawing as PNG, painted by Pillow with the fonts of this machine."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image, ImageColor, ImageDraw, ImageFont, features

from regard.errors import UserError
from regard.pages.drawing import Box, Scene, Text, scene
from regard.pages.fonts import Fonts

SCALES = (2.0, 1.0)  # pixels for a unit: the first at which the sheet is not too large
MOST_PIXELS = 64_000_000


def png(look: dict[str, Any]) -> tuple[bytes, list[str]]:
    """The document of a look, drawn with its weights; and in words what could not be drawn as it should."""
    fonts, drawn = _fitting(look)
    brush = Brush(fonts, drawn)
    for box in drawn.boxes:
        brush.box(box)
    for text in drawn.texts:
        brush.text(text)
    file = io.BytesIO()
    brush.sheet.save(file, "PNG")
    return file.getvalue(), _notes(fonts, drawn.texts)


def _fitting(look: dict[str, Any]) -> tuple[Fonts, Scene]:
    width = height = 0.0
    for scale in SCALES:
        fonts = Fonts(scale)
        drawn = scene(look, fonts.width)
        width, height = scale * drawn.width, scale * drawn.height
        if width * height <= MOST_PIXELS:
            return fonts, drawn
    raise UserError(f"the drawing would be {width:.0f} by {height:.0f} pixels; save such a long text as .svg or .html")


class Brush:
    def __init__(self, fonts: Fonts, drawn: Scene):
        self.fonts, self.scale = fonts, fonts.scale
        self.sheet = Image.new("RGB", (round(self.scale * drawn.width), round(self.scale * drawn.height)), "#ffffff")
        self.draw = ImageDraw.Draw(self.sheet)

    def box(self, box: Box) -> None:
        ink = ImageColor.getrgb(box.fill)[:3]
        shade = tuple(round(255 + (part - 255) * box.opacity) for part in ink)  # the sheet behind is white
        left, top = self.scale * box.x, self.scale * box.y
        corner = (left, top, max(left, left + self.scale * box.w - 1), max(top, top + self.scale * box.h - 1))
        self.draw.rectangle(corner, fill=shade)  # type: ignore[arg-type]

    def text(self, text: Text) -> None:
        parts = self.fonts.runs(text.text, text.size)
        at = self.scale * text.x
        for part, font in reversed(parts) if text.turned else parts:
            shaped = font.layout_engine == ImageFont.Layout.RAQM  # Pillow's own font is not
            way = ("rtl" if text.turned else "ltr") if shaped else None
            self.draw.text((at, self.scale * text.y), part, text.fill, font, anchor="ls", direction=way)
            at += font.getlength(part)


def _notes(fonts: Fonts, texts: list[Text]) -> list[str]:
    notes = []
    if fonts.lacking:
        shown = " ".join(sorted(fonts.lacking)[:8])
        notes.append(
            f"no font of this machine has {len(fonts.lacking)} of the characters ({shown}): they are drawn as boxes. "
            "Install one that has them, or save as .svg or .html"
        )
    if not features.check("raqm") and any(text.turned for text in texts):
        notes.append("this Pillow was built without Raqm: letters that run from right to left are not joined")
    return notes
