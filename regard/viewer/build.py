"""The page that `regard look` writes."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from regard.viewer.assets import document
from regard.viewer.check import checked
from regard.viewer.words import Layout, even_share, hop_layouts, layout

CSS = ["theme.css", "text.css", "viewer.css"]
JS = ["hover.js", "core.js", "maps.js", "glance.js", "heatmap.js", "export.js", "main.js"]
SHOWN = 8  # labels listed before the rest is folded away


def page(look: dict[str, Any]) -> str:
    """One self-contained HTML document: text, prediction, faithfulness and every head of `look`."""
    look = checked(look)
    view = layout(look)
    # The maps' bytes stand in elements of their own, so that opening the page parses none of them.
    light = {**look, "maps": [{k: v for k, v in m.items() if k != "data"} for m in look["maps"]]}
    chances = sorted(((look["prediction"] or {}).get("probabilities") or {}).items(), key=lambda pair: -pair[1])
    return document(
        "page.html.j2",
        css=CSS,
        js=JS,
        look=look,
        view=view,
        light={**light, "words": _words(view)},
        data=[Markup(m["data"]) for m in look["maps"]],
        top=chances[:SHOWN],
        rest=chances[SHOWN:],
        even=even_share(look),
        hops=hop_layouts(look),
    )


def _words(view: Layout) -> list[dict[str, Any]]:
    """The words as JSON, to be saved from the page (script cannot cut the text by Python's offsets)."""
    return [
        {"text": w.text, "weight": w.weight, "tokens": w.tokens, "start": w.start, "end": w.end}
        for line in view.lines
        for w in line.words
        if w.number is not None
    ]
