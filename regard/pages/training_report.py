"""The report as one self-contained HTML document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.pages.assets import document
from regard.pages.learning_curves import drawing
from regard.pages.results_table import cells
from regard.pages.schema import checked
from regard.pages.word_layout import even_share, layout

HERE = Path(__file__).parent / "templates"


def page(report: dict[str, Any]) -> str:
    """A table, learning curves (axes named by `curve_x` and `curve_y`), examples side by side, and how it was made."""
    missing = [key for key in ("title", "table") if key not in report]
    if missing:
        raise UserError(f"a report without {', '.join(map(repr, missing))} was given; it needs 'title' and 'table'")
    # What the curves measure stands at their axis; without a name of its own for the axis, the title goes there.
    measure, title = report.get("curve_y"), report.get("curve_title")
    x_label, y_label = report.get("curve_x") or "step", measure or title or "value"
    curves = report.get("curves") or []
    return document(
        "report.html.j2",
        folders=(HERE,),
        css=["theme.css", "text.css", "report.css"],
        js=["hover.js"],
        title=report["title"],
        lead=report.get("lead") or "",
        columns=report["table"]["columns"],
        rows=cells(report["table"]),
        curve_title=title if measure and title else "Learning curves",
        wide=drawing(curves, x_label=x_label, y_label=y_label, width=860) if curves else "",
        narrow=drawing(curves, x_label=x_label, y_label=y_label, width=370) if curves else "",
        documents=documents(report.get("examples") or []),
        facts=[("Settings", flat(report.get("settings") or {})), ("Machine", flat(report.get("machine") or {}))],
        notes=report.get("notes") or [],
    )


def documents(looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Looks at the same text stand together, in the order in which they came."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for look in map(checked, ({**look, "maps": []} for look in looks)):
        shown = {"look": look, "view": layout(look), "chance": _chance(look["prediction"])}
        grouped.setdefault(look["text"], []).append(shown)
    return [
        {
            "title": group[0]["look"]["title"],
            "models": group,
            "evidence": any(one["look"]["evidence"] for one in group),
            "even": even_share(group[0]["look"]),
        }
        for group in grouped.values()
    ]


def _chance(prediction: dict[str, Any] | None) -> float | None:
    return (prediction.get("probabilities") or {}).get(prediction["label"]) if prediction else None


def flat(tree: dict[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names."""
    rows: list[tuple[str, str]] = []
    for key, value in tree.items():
        name = f"{above}{key}"
        rows += flat(value, f"{name}.") if isinstance(value, dict) and value else [(name, _word(value))]
    return rows


def _word(value: Any) -> str:
    if value is None or value == {} or value == []:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
