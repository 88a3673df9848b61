"""A report of question-answering runs: calibration, and the error rate when uncertain questions are not answered."""

from __future__ import annotations

from typing import Any

from regard.pages.assets import render_document
from regard.pages.plots import line_plot, reliability_diagram
from regard.pages.results_table import format_table
from regard.pages.training_report import flatten

COLUMNS = [
    {"key": "name", "title": "run", "format": "text", "explain": ""},
    {"key": "exact", "title": "accuracy", "format": "percent", "explain": "correct answers if all are answered"},
    {"key": "ece", "title": "calibration error", "format": "number", "explain": "expected |accuracy - confidence|"},
    {"key": "answered", "title": "answered", "format": "percent", "explain": "questions above the threshold"},
    {"key": "risk", "title": "error rate", "format": "percent", "explain": "wrong answers among the answered"},
    {
        "key": "correct_answered",
        "title": "correct answered",
        "format": "percent",
        "explain": "correct answers above the threshold",
    },
    {
        "key": "unknown_answered",
        "title": "unknown names answered",
        "format": "percent",
        "explain": "questions about made-up names, combined from parts of real ones; none should be answered",
    },
    {"key": "threshold", "title": "threshold", "format": "number", "explain": "least confidence of an answer"},
    {"key": "rows", "title": "questions", "format": "int", "explain": ""},
]


def render_recall_report(report: dict[str, Any]) -> str:
    """Render a report.

    Args:
        report: {"title", "lead", "runs"} and optionally "settings", "machine" and "notes". A run is {"name",
            "metrics", "examples", "unknown_names"}; an example has a kind, question, answer, truth and confidence.
    """
    columns = [{"best": None, **column} for column in COLUMNS]
    rows = [{"name": run["name"], **run["metrics"]} for run in report["runs"]]
    return render_document(
        "recall.html.j2",
        css=["theme.css", "text.css", "report.css", "recall.css"],
        js=["hover.js"],
        title=report["title"],
        lead=report["lead"],
        columns=columns,
        rows=format_table({"columns": columns, "rows": rows}),
        runs=[_plot_run(run) for run in report["runs"]],
        facts=[(key.title(), flatten(report.get(key) or {})) for key in ("settings", "machine")],
        notes=report.get("notes") or [],
    )


def _plot_run(run: dict[str, Any]) -> dict[str, Any]:
    metrics = run["metrics"]
    thresholds = metrics["abstention"]
    answered = [100 * row["answered"] for row in thresholds]
    error = 100 * (1 - metrics["exact"])
    curves = [
        {"name": "errors", "x": answered, "y": [100 * row["risk"] for row in thresholds]},
        {"name": "errors, random", "x": answered[:: max(1, len(answered) - 1)], "y": [error] * min(2, len(answered))},
        {"name": "errors, optimal", "x": answered, "y": [max(0.0, a - (100 - error)) / a * 100 for a in answered]},
        {"name": "unknown names answered", "x": answered, "y": [100 * row["unknown_answered"] for row in thresholds]},
    ]
    labels: dict[str, Any] = {"x_label": "answered, %", "y_label": "fraction, %"}
    return {
        **run,
        "reliability": reliability_diagram(metrics["reliability"], label=f"reliability of {run['name']}"),
        "abstention": line_plot(curves, **labels, width=560, height=400),
        "narrow": line_plot(curves, **labels, width=370, height=340),
    }
