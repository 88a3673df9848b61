"""The attention page inside a notebook, in an iframe so that its styles and script do not affect the notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from regard.pages.attention_page import render_page


def render_notebook(look: dict[str, Any], height: int = 720) -> str:
    """An <iframe srcdoc> for `_repr_html_`. The sandbox keeps the page away from the notebook's data."""
    return (
        f'<iframe srcdoc="{escape(render_page(look), quote=True)}" sandbox="allow-scripts allow-downloads" '
        f'title="{escape(str(look["title"]), quote=True)}" '
        f'style="width:100%;height:{int(height)}px;border:0" loading="lazy"></iframe>'
    )
