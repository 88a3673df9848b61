"""Pages of what was found, one for each topic: statements, equations, figures, plots, and what is told instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.pages.assets import document
from regard.pages.training_report import HERE as REPORT
from regard.theory.claim import Row
from regard.theory.cost.plots import plot

HERE = Path(__file__).parent / "templates"
SAID = {True: "yes", False: "no", None: "cannot be said"}


def file_of(topic: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-") + ".html"


def page(topic: str, rows: Sequence[Row], topics: Sequence[str] = ()) -> str:
    counts = {word: sum(row.verdict == word for row in rows) for word in ("holds", "fails", "undecided")}
    return document(
        "topic.html.j2",
        folders=(HERE, REPORT),
        css=["theme.css", "text.css", "report.css", "verify.css"],
        js=["hover.js"],
        topic=topic,
        count=len(rows),
        tally=", ".join(f"{count} {word}" for word, count in counts.items() if count),
        pages=[{"topic": one, "file": file_of(one)} for one in topics],
        rows=[_row(row) for row in rows],
    )


def _row(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": row.kind,
        "claim": row.claim,
        "equation": row.equation,
        "verdict": row.verdict,
        "told": row.told,
        "figures": [(name, words(figure)) for name, figure in row.figures.items()],
        "counter": [(name, words(figure)) for name, figure in row.counter.items()],
        "tests": [
            {"name": name, "said": SAID[said], "mark": "yes" if said else "no"} for name, said in row.tests.items()
        ],
        "plots": [
            {"title": one.title, "svg": plot(one.curves, x_label=one.x_label, y_label=one.y_label, log=one.log)}
            for one in row.plots
        ],
    }


def words(value: Any) -> str:
    """A figure for readers."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if isinstance(value, list):
        return ", ".join(f"[{words(v)}]" if isinstance(v, list) else words(v) for v in value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {words(v)}" for key, v in value.items())
    return "–" if value is None else str(value)


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """A page for each topic, and the interactive one of the constructions beside theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    topics = list(dict.fromkeys(row.topic for row in rows))
    written = []
    for topic in topics:
        place = folder / file_of(topic)
        place.write_text(page(topic, [row for row in rows if row.topic == topic], topics), encoding="utf-8")
        written.append(place)
    if "constructions" in topics:
        from regard.theory.sliders_page import write as write_sliders

        written.append(write_sliders(folder / "sliders.html"))
    return written
