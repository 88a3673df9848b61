"""The text figure as PNG, rendered by Pillow with the installed fonts."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image, ImageColor, ImageDraw, ImageFont, features

from regard.errors import UserError
from regard.pages.drawing import Box, Drawing, Text, draw_look
from regard.pages.fonts import Fonts

SCALES = (2.0, 1.0)  # pixels per unit; the first at which the image is not too large
MAX_PIXELS = 64_000_000


def render_png(look: dict[str, Any]) -> tuple[bytes, list[str]]:
    """The text of a look with its weights as PNG, and warnings about characters that could not be drawn."""
    fonts, drawing = _draw_at_scale(look)
    canvas = _Canvas(fonts, drawing)
    for box in drawing.boxes:
        canvas.draw_box(box)
    for text in drawing.texts:
        canvas.draw_text(text)
    file = io.BytesIO()
    canvas.image.save(file, "PNG")
    return file.getvalue(), _warnings(fonts, drawing.texts)


def _draw_at_scale(look: dict[str, Any]) -> tuple[Fonts, Drawing]:
    width = height = 0.0
    for scale in SCALES:
        fonts = Fonts(scale)
        drawing = draw_look(look, fonts.width)
        width, height = scale * drawing.width, scale * drawing.height
        if width * height <= MAX_PIXELS:
            return fonts, drawing
    raise UserError(f"the image would have {width:.0f} x {height:.0f} pixels; save such a long text as .svg or .html")


class _Canvas:
    def __init__(self, fonts: Fonts, drawing: Drawing):
        self.fonts, self.scale = fonts, fonts.scale
        size = (round(self.scale * drawing.width), round(self.scale * drawing.height))
        self.image = Image.new("RGB", size, "#ffffff")
        self.pen = ImageDraw.Draw(self.image)

    def draw_box(self, box: Box) -> None:
        color = ImageColor.getrgb(box.fill)[:3]
        blended = tuple(round(255 + (part - 255) * box.opacity) for part in color)  # the background is white
        left, top = self.scale * box.x, self.scale * box.y
        corners = (left, top, max(left, left + self.scale * box.w - 1), max(top, top + self.scale * box.h - 1))
        self.pen.rectangle(corners, fill=blended)  # type: ignore[arg-type]

    def draw_text(self, text: Text) -> None:
        parts = self.fonts.split_by_font(text.text, text.size)
        left = self.scale * text.x
        for part, font in reversed(parts) if text.right_to_left else parts:
            shaped = font.layout_engine == ImageFont.Layout.RAQM  # Pillow's default font is not shaped
            direction = ("rtl" if text.right_to_left else "ltr") if shaped else None
            self.pen.text((left, self.scale * text.y), part, text.fill, font, anchor="ls", direction=direction)
            left += font.getlength(part)


def _warnings(fonts: Fonts, texts: list[Text]) -> list[str]:
    warnings = []
    if fonts.missing:
        examples = " ".join(sorted(fonts.missing)[:8])
        warnings.append(
            f"no installed font has {len(fonts.missing)} of the characters ({examples}): they are drawn as boxes. "
            "Install a font that has them, or save as .svg or .html"
        )
    if not features.check("raqm") and any(text.right_to_left for text in texts):
        warnings.append("this Pillow was built without Raqm: letters of right-to-left scripts are not joined")
    return warnings
