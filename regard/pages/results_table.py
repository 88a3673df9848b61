"""A table of results: cells formatted by column, with the best value of each column marked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Cell:
    """A formatted value; `exact` is the full number, shown on hover."""

    text: str
    best: bool
    exact: str


def _format_seconds(value: float) -> str:
    if value < 10:
        return f"{value:.2g} s" if value < 1 else f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def _format_number(value: float) -> str:
    """Four significant digits, without exponents up to a billion."""
    if 0 < abs(value) < 1e-4:
        return "< 0.0001" if value > 0 else "> -0.0001"
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.4g}"


FORMATS = {
    "text": str,
    "percent": lambda value: f"{100 * value:.1f} %",
    "points": lambda value: f"{round(100 * value, 1) + 0.0:.1f}",
    "number": _format_number,
    "seconds": _format_seconds,
    "int": lambda value: f"{round(value):,}".replace(",", "\u202f"),
}


def format_table(table: dict[str, Any]) -> list[list[Cell]]:
    """Rows of cells in the order of the columns; a missing or NaN value becomes a dash and is never best."""
    columns = [_format_column(column, table["rows"]) for column in table["columns"]]
    return [list(row) for row in zip(*columns, strict=True)]


def _format_column(column: dict[str, Any], rows: list[dict[str, Any]]) -> list[Cell]:
    format_name, best = column.get("format") or "text", column.get("best")
    if format_name not in FORMATS:
        raise UserError(f"column {column['key']!r} has format {format_name!r}; {did_you_mean(format_name, FORMATS)}")
    if best not in (None, "max", "min"):
        raise UserError(f"column {column['key']!r} has best {best!r}; expected 'max', 'min' or nothing")
    values = [row.get(column["key"]) for row in rows]
    numeric = [float(value) for value in values if value is not None and _is_number(value)]
    # A single row is not marked as best.
    target = (max if best == "max" else min)(numeric) if best and len(numeric) > 1 else None
    return [_format_cell(value, format_name, target) for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _format_cell(value: Any, format_name: str, target: float | None) -> Cell:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return Cell("–", False, "")
    if format_name == "text" or not _is_number(value):
        return Cell(str(value), False, "")
    return Cell(FORMATS[format_name](value), target is not None and value == target, repr(value))
