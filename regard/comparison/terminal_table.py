"""Print the result of a comparison on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from regard.comparison.comparison_result import ComparisonResult

RIGHT_ALIGNED = (0, 2, 5, 6, 7)


def print_comparison(result: ComparisonResult) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    rows = result.table()
    if rows:
        table = Table(*rows[0])
        for column in RIGHT_ALIGNED:
            table.columns[column].justify = "right"
        for row in rows:
            table.add_row(*row.values())
        console.print(table)
    for run, error in result.data["failures"].items():
        console.print(f"failed: {run}: {error}", markup=False, highlight=False)
    console.print(result.recommendation, markup=False, highlight=False)
    console.print(f"report: {result.report}", markup=False, highlight=False, soft_wrap=True)
