"""The interactive page that `regard look` writes."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from regard.pages.assets import render_document
from regard.pages.schema import check_look
from regard.pages.word_layout import Layout, hop_layouts, layout, uniform_evidence_fraction

CSS = ["theme.css", "text.css", "viewer.css", "stage.css", "image_cells.css"]
JS = [
    *("hover.js", "core.js", "maps.js", "head_thumbnails.js", "heatmap.js", "line_view.js", "distance_view.js"),
    *("image_view.js", "targets.js", "metrics.js", "head_faithfulness.js", "spans.js", "what_if.js"),
    *("image_overlay.js", "image_cells.js", "export.js", "main.js"),
]
MAX_LABELS = 8  # listed before the others are collapsed
MAX_HEADS = 24  # listed by their importance
OTHER_FIELDS = ("tokens", "sentences", "axes", "model", "run", "weights", "image_axis")


def render_page(look: dict[str, Any]) -> str:
    """Render the data of a look (regard.pages.schema) as one HTML document."""
    look = check_look(look)
    view = layout(look)
    other = look["other"]
    maps = [*look["maps"], *({**m, "side": 1} for m in (other or {"maps": []})["maps"])]
    # The bytes of the maps are in separate elements, so that opening the page does not parse them.
    light = {**look, "maps": [{k: v for k, v in m.items() if k != "data"} for m in maps]}
    if other is not None:
        light["other"] = {key: other[key] for key in OTHER_FIELDS}
    other_view = None if other is None else layout(other)
    heads = sorted(look["heads"] or [], key=lambda head: head["change"])
    if len(heads) > MAX_HEADS:
        heads = [*heads[: MAX_HEADS // 2], *heads[-MAX_HEADS // 2 :]]
    probabilities = sorted(((look["prediction"] or {}).get("probabilities") or {}).items(), key=lambda pair: -pair[1])
    return render_document(
        "page.html.j2",
        css=CSS,
        js=JS,
        look=look,
        view=view,
        light={**light, "words": _words(view)},
        data=[Markup(m["data"]) for m in maps],
        other_view=other_view,
        differences=word_differences(look, view, other_view),
        matter=heads,
        pictured=any(isinstance(axis, dict) and axis.get("grid") for axis in look["axes"].values()),
        specials=any(token["special"] for token in look["tokens"]),
        top=probabilities[:MAX_LABELS],
        rest=probabilities[MAX_LABELS:],
        even=uniform_evidence_fraction(look),
        each=1 / max(1, sum(bool(word.weight) for line in view.lines for word in line.words)),
        hops=hop_layouts(look),
    )


def word_differences(look: dict[str, Any], first: Layout, second: Layout | None) -> list[dict[str, Any]]:
    """Each word with its weight in the first run minus that in the second; empty if the words differ."""
    if second is None or look["weights"] is None or look["other"]["weights"] is None:
        return []
    words, other_words = ([word for line in view.lines for word in line.words] for view in (first, second))
    if [word.text for word in words] != [word.text for word in other_words]:
        return []
    changes = [
        None if a.number is None or a.weight is None or b.weight is None else a.weight - b.weight
        for a, b in zip(words, other_words, strict=True)
    ]
    largest = max((abs(change) for change in changes if change is not None), default=0.0) or 1.0
    return [
        {"text": word.text, "change": change, "shade": abs(change or 0.0) / largest}
        for word, change in zip(words, changes, strict=True)
    ]


def _words(view: Layout) -> list[dict[str, Any]]:
    """Words for the page's exports: JavaScript cannot slice the text by Python's offsets."""
    return [
        {"text": w.text, "weight": w.weight, "tokens": w.tokens, "start": w.start, "end": w.end}
        for line in view.lines
        for w in line.words
        if w.number is not None
    ]
