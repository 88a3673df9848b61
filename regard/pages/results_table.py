"""A table of results: every cell formatted as its column says, the best of each column marked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Cell:
    text: str
    best: bool
    exact: str  # the number as it was given, shown on hover


def _seconds(value: float) -> str:
    if value < 10:
        return f"{value:.2g} s" if value < 1 else f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def _number(value: float) -> str:
    """Four figures, without powers of ten as far as people read such."""
    if 0 < abs(value) < 1e-4:
        return "< 0.0001" if value > 0 else "> -0.0001"
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.4g}"


FORMATS = {
    "text": str,
    "percent": lambda value: f"{100 * value:.1f} %",
    "points": lambda value: f"{round(100 * value, 1) + 0.0:.1f}",
    "number": _number,
    "seconds": _seconds,
    "int": lambda value: f"{round(value):,}".replace(",", "\u202f"),
}


def cells(table: dict[str, Any]) -> list[list[Cell]]:
    """Rows of cells in the order of the columns; a value that is missing or NaN becomes a dash and is never best."""
    columns = [_column(column, table["rows"]) for column in table["columns"]]
    return [list(row) for row in zip(*columns, strict=True)]


def _column(column: dict[str, Any], rows: list[dict[str, Any]]) -> list[Cell]:
    kind, best = column.get("format") or "text", column.get("best")
    if kind not in FORMATS:
        raise UserError(f"column {column['key']!r} has format {kind!r}; {did_you_mean(kind, FORMATS)}")
    if best not in (None, "max", "min"):
        raise UserError(f"column {column['key']!r} has best {best!r}; expected 'max', 'min' or nothing")
    values = [row.get(column["key"]) for row in rows]
    numbers = [float(v) for v in values if v is not None and _is_number(v)]
    # With a single row there is nothing to be better than.
    target = (max if best == "max" else min)(numbers) if best and len(numbers) > 1 else None
    return [_cell(value, kind, target) for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _cell(value: Any, kind: str, target: float | None) -> Cell:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return Cell("–", False, "")
    if kind == "text" or not _is_number(value):
        return Cell(str(value), False, "")
    return Cell(FORMATS[kind](value), target is not None and value == target, repr(value))
