"""A drawing as PNG, painted by Pillow with the fonts of this machine."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image, ImageColor, ImageDraw, ImageFont, features

from regard.errors import UserError
from regard.viewer.fonts import Fonts
from regard.viewer.scene import Box, Text, scene

SCALE = 2.0
MOST_PIXELS = 64_000_000


def png(look: dict[str, Any]) -> tuple[bytes, list[str]]:
    """The document of a look, drawn with its weights; and in words what could not be drawn as it should."""
    fonts = Fonts(SCALE)
    drawn = scene(look, fonts.width)
    width, height = round(SCALE * drawn.width), round(SCALE * drawn.height)
    if width * height > MOST_PIXELS:
        raise UserError(f"the drawing would be {width} by {height} pixels; save such a long text as .svg or .html")
    sheet = Image.new("RGB", (width, height), "#ffffff")
    brush = ImageDraw.Draw(sheet)
    for box in drawn.boxes:
        _box(brush, box)
    shaped = bool(features.check("raqm"))
    for text in drawn.texts:
        _text(brush, text, fonts)
    file = io.BytesIO()
    sheet.save(file, "PNG")
    return file.getvalue(), _notes(fonts, drawn.texts, shaped)


def _box(brush: ImageDraw.ImageDraw, box: Box) -> None:
    ink = ImageColor.getrgb(box.fill)[:3]
    shade = tuple(round(255 + (part - 255) * box.opacity) for part in ink)  # the sheet behind is white
    left, top = SCALE * box.x, SCALE * box.y
    corner = (left, top, max(left, left + SCALE * box.w - 1), max(top, top + SCALE * box.h - 1))
    brush.rectangle(corner, fill=shade)  # type: ignore[arg-type]


def _text(brush: ImageDraw.ImageDraw, text: Text, fonts: Fonts) -> None:
    parts = fonts.runs(text.text, text.size)
    at = SCALE * text.x
    for part, font in reversed(parts) if text.turned else parts:
        shaped = font.layout_engine == ImageFont.Layout.RAQM  # Pillow's own font is not
        way = ("rtl" if text.turned else "ltr") if shaped else None
        brush.text((at, SCALE * text.y), part, text.fill, font, anchor="ls", direction=way)
        at += font.getlength(part)


def _notes(fonts: Fonts, texts: list[Text], shaped: bool) -> list[str]:
    notes = []
    if fonts.lacking:
        shown = " ".join(sorted(fonts.lacking)[:8])
        notes.append(
            f"no font of this machine has {len(fonts.lacking)} of the characters ({shown}): they are drawn as boxes. "
            "Install one that has them, or save as .svg or .html"
        )
    if not shaped and any(text.turned for text in texts):
        notes.append("this Pillow was built without Raqm: letters that run from right to left are not joined")
    return notes
