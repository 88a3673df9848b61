"""The page inside a notebook: a frame of its own, so that neither its styles nor its script reach the notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from regard.pages.attention_page import page


def notebook(look: dict[str, Any], height: int = 720) -> str:
    """An <iframe srcdoc> for `_repr_html_`. The sandbox keeps the page away from the notebook's own data."""
    return (
        f'<iframe srcdoc="{escape(page(look), quote=True)}" sandbox="allow-scripts allow-downloads" '
        f'title="{escape(str(look["title"]), quote=True)}" '
        f'style="width:100%;height:{int(height)}px;border:0" loading="lazy"></iframe>'
    )
