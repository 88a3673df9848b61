"""A report of training runs as one HTML document: a table of results, learning curves, and examples."""

from __future__ import annotations

from typing import Any

from regard.errors import UserError
from regard.pages.assets import render_document
from regard.pages.plots import line_plot
from regard.pages.results_table import format_table
from regard.pages.schema import check_look
from regard.pages.word_layout import layout, uniform_evidence_fraction


def render_report(report: dict[str, Any]) -> str:
    """Render a report.

    Args:
        report: {"title", "table"} and optionally "lead", "curves" (with "curve_x", "curve_y" and "curve_title"),
            "examples" (looks), "settings", "machine" and "notes".
    """
    missing = [key for key in ("title", "table") if key not in report]
    if missing:
        raise UserError(f"a report without {', '.join(map(repr, missing))} was given; it needs 'title' and 'table'")
    # The y axis is named after the metric; without one, after the title of the curves.
    metric, title = report.get("curve_y"), report.get("curve_title")
    labels: dict[str, Any] = {"x_label": report.get("curve_x") or "step", "y_label": metric or title or "value"}
    curves = report.get("curves") or []
    return render_document(
        "report.html.j2",
        css=["theme.css", "text.css", "report.css"],
        js=["hover.js"],
        title=report["title"],
        lead=report.get("lead") or "",
        columns=report["table"]["columns"],
        rows=format_table(report["table"]),
        curve_title=title if metric and title else "Learning curves",
        wide=line_plot(curves, **labels, width=860),
        narrow=line_plot(curves, **labels, width=370),
        documents=group_by_text(report.get("examples") or []),
        facts=[(key.title(), flatten(report.get(key) or {})) for key in ("settings", "machine")],
        notes=report.get("notes") or [],
    )


def group_by_text(looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group looks at the same text, in their order."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for look in map(check_look, ({**look, "maps": []} for look in looks)):
        model = {"look": look, "view": layout(look), "probability": _probability(look["prediction"])}
        groups.setdefault(look["text"], []).append(model)
    return [
        {
            "title": models[0]["look"]["title"],
            "models": models,
            "evidence": any(model["look"]["evidence"] for model in models),
            "even": uniform_evidence_fraction(models[0]["look"]),
        }
        for models in groups.values()
    ]


def _probability(prediction: dict[str, Any] | None) -> float | None:
    return (prediction.get("probabilities") or {}).get(prediction["label"]) if prediction else None


def flatten(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as (dotted name, text)."""
    rows: list[tuple[str, str]] = []
    for key, value in tree.items():
        name = f"{prefix}{key}"
        rows += flatten(value, f"{name}.") if isinstance(value, dict) and value else [(name, _format_value(value))]
    return rows


def _format_value(value: Any) -> str:
    if value is None or value == {} or value == []:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
