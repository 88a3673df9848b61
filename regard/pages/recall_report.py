"""The page about a run of recall: how sure it is, how often it is right, and what keeping silent does."""

from __future__ import annotations

from typing import Any

from regard.pages import reliability_plot
from regard.pages.assets import document
from regard.pages.learning_curves import drawing
from regard.pages.results_table import cells
from regard.pages.training_report import HERE, flat

COLUMNS = [
    {"key": "name", "title": "run", "format": "text", "explain": ""},
    {"key": "exact", "title": "right", "format": "percent", "explain": "answers that are right, had it answered all"},
    {"key": "ece", "title": "calibration error", "format": "number", "explain": "expected |right - confidence|"},
    {"key": "answered", "title": "answered", "format": "percent", "explain": "above the level; of others: not known"},
    {"key": "risk", "title": "wrong among these", "format": "percent", "explain": "the risk at this level"},
    {"key": "kept", "title": "right ones kept", "format": "percent", "explain": "of all right answers, above it"},
    {
        "key": "strangers",
        "title": "strangers answered",
        "format": "percent",
        "explain": "people whom nobody has named, put together from parts of names; none should be answered",
    },
    {"key": "level", "title": "level", "format": "number", "explain": "the least confidence at which it answers"},
    {"key": "rows", "title": "questions", "format": "int", "explain": ""},
]


def page(report: dict[str, Any]) -> str:
    """`runs` are measured runs, {"name", "measures", "examples"}; an example says what it is (`kind`), the question,
    the answer, the truth, how sure, and what the answer rests on."""
    columns = [{"best": None, **column} for column in COLUMNS]
    rows = [{"name": run["name"], **run["measures"]} for run in report["runs"]]
    return document(
        "recall.html.j2",
        folders=(HERE,),
        css=["theme.css", "text.css", "report.css", "recall.css"],
        js=["hover.js"],
        title=report["title"],
        lead=report["lead"],
        columns=columns,
        rows=cells({"columns": columns, "rows": rows}),
        runs=[_run(run) for run in report["runs"]],
        facts=[("Settings", flat(report.get("settings") or {})), ("Machine", flat(report.get("machine") or {}))],
        notes=report.get("notes") or [],
    )


def _run(run: dict[str, Any]) -> dict[str, Any]:
    found = run["measures"]
    levels = found["abstention"]
    answered = [100 * row["answered"] for row in levels]
    wrong = 100 * (1 - found["exact"])
    curves = [
        {"name": "wrong, the surest", "x": answered, "y": [100 * row["risk"] for row in levels]},
        {"name": "wrong, by chance", "x": answered[:: max(1, len(answered) - 1)], "y": [wrong] * min(2, len(answered))},
        {"name": "wrong, at best", "x": answered, "y": [max(0.0, a - (100 - wrong)) / a * 100 for a in answered]},
        {"name": "strangers answered", "x": answered, "y": [100 * row["strangers"] for row in levels]},
    ]
    return {
        **run,
        "reliability": reliability_plot.drawing(found["reliability"], label=f"reliability of {run['name']}"),
        "abstention": drawing(curves, x_label="answered, %", y_label="share, %", width=560, height=400),
        "narrow": drawing(curves, x_label="answered, %", y_label="share, %", width=370, height=340),
    }
