"""A drawing as SVG: every word a <text> of its own, held to its width whatever font opens it; numbers on hover."""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import escape

from regard.pages.drawing import INK, Box, Text, scene
from regard.pages.text_width import estimated

SERIF = "'Iowan Old Style', 'Palatino Linotype', Palatino, Georgia, 'DejaVu Serif', serif"
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(look: dict[str, Any]) -> str:
    """The document of a look, drawn with its weights."""
    drawn = scene(look, estimated)
    width, height = round(drawn.width), round(drawn.height)
    # what is underneath comes first; a word and the box behind it tell the same number
    parts = [*map(_box, drawn.boxes), *map(_text, drawn.texts)]
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{SERIF}" fill="{INK}">\n<title>{_said(drawn.title)}</title>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _box(box: Box) -> str:
    see = f' fill-opacity="{box.opacity:.4f}"' if box.opacity < 1 else ""
    start = f'<rect x="{box.x:.2f}" y="{box.y:.2f}" width="{box.w:.2f}" height="{box.h:.2f}" fill="{box.fill}"{see}'
    return f"{start}>{_tip(box.tip)}</rect>" if box.tip else f"{start}/>"


def _text(text: Text) -> str:
    turned = ' direction="rtl" text-anchor="end"' if text.turned else ""
    fill = f' fill="{text.fill}"' if text.fill != INK else ""
    return (
        f'<text x="{text.x:.2f}" y="{text.y:.2f}" font-size="{text.size:g}" textLength="{text.w:.2f}" '
        f'lengthAdjust="spacingAndGlyphs"{turned}{fill}>{_tip(text.tip)}{_said(text.text)}</text>'
    )


def _tip(tip: str) -> str:
    return f"<title>{_said(tip)}</title>" if tip else ""


def _said(text: str) -> str:
    """XML has no place for control characters, however they are written."""
    return escape(_FORBIDDEN.sub("\ufffd", text))
