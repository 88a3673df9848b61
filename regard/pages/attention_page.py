"""The page that `regard look` writes."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from regard.pages.assets import document
from regard.pages.schema import checked
from regard.pages.word_layout import Layout, even_share, hop_layouts, layout

CSS = ["theme.css", "text.css", "viewer.css", "stage.css", "picture.css"]
JS = [
    *("hover.js", "core.js", "maps.js", "glance.js", "heatmap.js", "lines.js", "distance.js", "image.js", "asked.js"),
    *("measures.js", "judged.js", "spans.js", "whatif.js", "veil.js", "picture.js", "export.js", "main.js"),
]
SHOWN = 8  # labels listed before the rest is folded away
MATTER = 24  # heads listed


def page(look: dict[str, Any]) -> str:
    """One self-contained HTML document: text, prediction, faithfulness and every head of `look`."""
    look = checked(look)
    view = layout(look)
    # The maps' bytes stand in elements of their own, so that opening the page parses none of them.
    other = look["other"]
    maps = [*look["maps"], *({**m, "side": 1} for m in (other or {"maps": []})["maps"])]
    light = {**look, "maps": [{k: v for k, v in m.items() if k != "data"} for m in maps]}
    if other is not None:
        light["other"] = {
            key: other[key] for key in ("tokens", "sentences", "axes", "model", "run", "weights", "cells")
        }
    seconds = None if other is None else layout(other)
    heads = sorted(look["heads"] or [], key=lambda row: row["change"])
    chances = sorted(((look["prediction"] or {}).get("probabilities") or {}).items(), key=lambda pair: -pair[1])
    return document(
        "page.html.j2",
        css=CSS,
        js=JS,
        look=look,
        view=view,
        light={**light, "words": _words(view)},
        data=[Markup(m["data"]) for m in maps],
        other_view=seconds,
        differences=differences(look, view, seconds),
        matter=heads if len(heads) <= MATTER else [*heads[: MATTER // 2], *heads[-MATTER // 2 :]],
        pictured=any(isinstance(a, dict) and a.get("grid") for a in look["axes"].values()),
        specials=any(token["special"] for token in look["tokens"]),
        top=chances[:SHOWN],
        rest=chances[SHOWN:],
        even=even_share(look),
        each=1 / max(1, sum(bool(w.weight) for line in view.lines for w in line.words)),
        hops=hop_layouts(look),
    )


def differences(look: dict[str, Any], first: Layout, second: Layout | None) -> list[dict[str, Any]]:
    """The words with what the first run gives them more than the second; none where the two read other words."""
    if second is None or look["weights"] is None or look["other"]["weights"] is None:
        return []
    one, two = ([w for line in view.lines for w in line.words] for view in (first, second))
    if [w.text for w in one] != [w.text for w in two]:
        return []
    changes = [
        None if a.number is None or a.weight is None or b.weight is None else a.weight - b.weight
        for a, b in zip(one, two, strict=True)
    ]
    peak = max((abs(change) for change in changes if change is not None), default=0.0) or 1.0
    return [
        {"text": word.text, "change": change, "shade": abs(change or 0.0) / peak}
        for word, change in zip(one, changes, strict=True)
    ]


def _words(view: Layout) -> list[dict[str, Any]]:
    """The words as JSON, to be saved from the page (script cannot cut the text by Python's offsets)."""
    return [
        {"text": w.text, "weight": w.weight, "tokens": w.tokens, "start": w.start, "end": w.end}
        for line in view.lines
        for w in line.words
        if w.number is not None
    ]
