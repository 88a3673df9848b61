"""The table on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.comparison.formatting import interval, shown
from regard.comparison.recommendation import recommendation
from regard.pages.results_table import FORMATS
from regard.tasks.comparison import get_comparison


def show(found: Mapping[str, Any], place: Path) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # a file has room
    measure = next(m for m in get_comparison(found["task"]).metrics if m.name == found["measure"])
    grid = Table("rank", "design", measure.name, "95 % interval", "from the best", "training", "answer", "parameters")
    for column in (0, 2, 5, 6, 7):
        grid.columns[column].justify = "right"
    for row in found["rows"]:
        grid.add_row(
            str(row["rank"]),
            row["name"],
            shown(row["mean"], measure.format, row["high"] - row["low"]),
            interval(row["low"], row["high"], measure.format),
            row["more"],
            FORMATS["seconds"](row["seconds"]),
            "–" if row["latency"] is None else f"{1e3 * row['latency']:.1f} ms",
            "–" if row["parameters"] is None else f"{row['parameters']:,}",
        )
    if found["rows"]:
        console.print(grid)
    for name, why in found["failures"].items():
        console.print(f"failed: {name}: {why}", markup=False, highlight=False)
    console.print(recommendation(found, measure.format, measure.explain), markup=False, highlight=False)
    console.print(f"report: {place / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
