"""The text figure as SVG: one <text> per word with a fixed width, so that other fonts do not change the layout."""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import escape

from regard.pages.drawing import INK, Box, Text, draw_look
from regard.pages.text_width import estimate_width

SERIF = "'Iowan Old Style', 'Palatino Linotype', Palatino, Georgia, 'DejaVu Serif', serif"
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_svg(look: dict[str, Any]) -> str:
    """The text of a look with its weights, as SVG."""
    drawing = draw_look(look, estimate_width)
    width, height = round(drawing.width), round(drawing.height)
    elements = [*map(_box, drawing.boxes), *map(_text, drawing.texts)]  # boxes are behind the texts
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{SERIF}" fill="{INK}">\n<title>{_escape(drawing.title)}</title>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(elements) + "\n</svg>\n"
    )


def _box(box: Box) -> str:
    opacity = f' fill-opacity="{box.opacity:.4f}"' if box.opacity < 1 else ""
    size = f'x="{box.x:.2f}" y="{box.y:.2f}" width="{box.w:.2f}" height="{box.h:.2f}"'
    start = f'<rect {size} fill="{box.fill}"{opacity}'
    return f"{start}>{_title(box.tip)}</rect>" if box.tip else f"{start}/>"


def _text(text: Text) -> str:
    direction = ' direction="rtl" text-anchor="end"' if text.right_to_left else ""
    fill = f' fill="{text.fill}"' if text.fill != INK else ""
    return (
        f'<text x="{text.x:.2f}" y="{text.y:.2f}" font-size="{text.size:g}" textLength="{text.w:.2f}" '
        f'lengthAdjust="spacingAndGlyphs"{direction}{fill}>{_title(text.tip)}{_escape(text.text)}</text>'
    )


def _title(tip: str) -> str:
    return f"<title>{_escape(tip)}</title>" if tip else ""


def _escape(text: str) -> str:
    """XML does not allow control characters, even escaped."""
    return escape(_FORBIDDEN.sub("\ufffd", text))
