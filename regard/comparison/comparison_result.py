"""The result of a comparison: a table of designs with ranks and intervals, a recommendation, and a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from regard.comparison.formatting import format_interval, format_metric
from regard.data.frames import html_table, to_frame
from regard.pages.results_table import FORMATS
from regard.tasks.comparison import get_comparison

FRAME_COLUMNS = (
    *("rank", "name", "mean", "low", "high", "vs_best", "steps", "seconds", "latency", "parameters", "flops"),
    *("memory", "evidence", "faithfulness"),
)


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """What `compare` returns.

    Args:
        data: The content of results.json.
        folder: The folder of the comparison.
    """

    data: dict[str, Any]
    folder: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per design, the best first: name, rank, mean, interval, values of each seed, cost."""
        return self.data["rows"]

    @property
    def ranks(self) -> dict[str, int]:
        """The rank of each design. Designs without a significant difference share a rank."""
        return {row["name"]: row["rank"] for row in self.rows}

    @property
    def recommendation(self) -> str:
        return self.data["recommendation"]

    @property
    def report(self) -> Path:
        """The path of the HTML report."""
        return self.folder / "report.html"

    def table(self) -> list[dict[str, str]]:
        """Return the rows with formatted cells."""
        metrics = get_comparison(self.data["task"]).metrics
        kind = next(metric.format for metric in metrics if metric.name == self.data["metric"])
        return [format_row(row, self.data["metric"], kind) for row in self.rows]

    def to_frame(self) -> Any:
        """Return a DataFrame with one row per design: pandas if it is installed, else polars."""
        return to_frame(
            [
                {self.data["metric"] if name == "mean" else name: row[name] for name in FRAME_COLUMNS}
                | row["other_metrics"]
                for row in self.rows
            ]
        )

    def __repr__(self) -> str:
        table = self.table()
        columns = list(table[0]) if table else []
        widths = {column: max(len(column), *(len(row[column]) for row in table)) for column in columns}
        lines = ["  ".join(f"{column:{widths[column]}}" for column in columns).rstrip()] if table else []
        lines += ["  ".join(f"{row[column]:{widths[column]}}" for column in columns).rstrip() for row in table]
        return "\n".join([*lines, self.recommendation, f"report: {self.report}"])

    def _repr_html_(self) -> str:
        return f"{html_table(self.table())}<p>{escape(self.recommendation)}</p>"


def format_row(row: Mapping[str, Any], metric: str, kind: str) -> dict[str, str]:
    """Format one design for a table; `kind` is the format of the metric."""
    return {
        "rank": str(row["rank"]),
        "design": row["name"],
        metric: format_metric(row["mean"], kind, row["high"] - row["low"]),
        "95 % interval": format_interval(row["low"], row["high"], kind),
        "vs. best": row["vs_best"],
        "training": FORMATS["seconds"](row["seconds"]),
        "latency": "–" if row["latency"] is None else f"{1e3 * row['latency']:.1f} ms",
        "parameters": "–" if row["parameters"] is None else f"{row['parameters']:,}",
    }
