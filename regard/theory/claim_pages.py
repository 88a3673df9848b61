"""HTML pages of `regard verify`, one per topic: statements, equations, figures, plots and common misstatements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard.pages.assets import render_document
from regard.pages.plots import line_plot
from regard.theory.claim import ClaimResult, ClaimResults

TEMPLATES = Path(__file__).parent / "templates"
STYLES = ["theme.css", "text.css", "report.css", "verify.css"]
OUTCOMES = {True: "yes", False: "no", None: "undecided"}


def page_name(topic: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-") + ".html"


def render_topic(topic: str, results: Iterable[ClaimResult], topics: Sequence[str] = ()) -> str:
    """Return the page of a topic, with links to the pages of the other topics."""
    results = ClaimResults(results)
    return render_document(
        "topic.html.j2",
        folders=(TEMPLATES,),
        css=STYLES,
        js=["hover.js"],
        topic=topic,
        count=len(results),
        counts=", ".join(f"{count} {verdict}" for verdict, count in results.counts.items() if count),
        pages=[{"topic": name, "file": page_name(name)} for name in topics],
        results=[_template_data(result) for result in results],
    )


def _template_data(result: ClaimResult) -> dict[str, Any]:
    return {
        **result.as_dict(),
        "figures": [(name, format_figure(figure)) for name, figure in result.figures.items()],
        "counterexample": [(name, format_figure(figure)) for name, figure in result.counterexample.items()],
        "tests": [
            {"name": name, "outcome": OUTCOMES[passed], "mark": "yes" if passed else "no"}
            for name, passed in result.tests.items()
        ],
        "plots": [
            {
                "title": plot.title,
                "svg": line_plot(plot.curves, x_label=plot.x_label, y_label=plot.y_label, log=plot.log),
            }
            for plot in result.plots
        ],
    }


def format_figure(value: Any) -> str:
    """Format a number, or nested lists and mappings of numbers, for reading."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if isinstance(value, list):
        return ", ".join(f"[{format_figure(v)}]" if isinstance(v, list) else format_figure(v) for v in value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {format_figure(v)}" for key, v in value.items())
    return "–" if value is None else str(value)


def render_sliders() -> str:
    """Return the interactive page of the hand-set constructions: margin, query scale, key variance, number of heads."""
    return render_document("sliders.html.j2", folders=(TEMPLATES,), css=STYLES, js=["sliders.js"], n=10)


def write_pages(results: Sequence[ClaimResult], folder: Path) -> list[Path]:
    """Write one page per topic, and the interactive page if the topic "constructions" is among them."""
    folder.mkdir(parents=True, exist_ok=True)
    topics = list(dict.fromkeys(result.topic for result in results))
    pages = {
        page_name(topic): render_topic(topic, [result for result in results if result.topic == topic], topics)
        for topic in topics
    }
    if "constructions" in topics:
        pages["sliders.html"] = render_sliders()
    for name, html in pages.items():
        (folder / name).write_text(html, encoding="utf-8")
    return [folder / name for name in pages]
