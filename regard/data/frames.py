"""Results as data frames and as HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any


def to_frame(records: Sequence[Mapping[str, Any]]) -> Any:
    """Return a DataFrame with one row per record: pandas if it is installed, else polars."""
    rows = [dict(record) for record in records]
    if find_spec("pandas") is not None:
        import pandas  # pyright: ignore[reportMissingImports]

        return pandas.DataFrame(rows)
    import polars

    return polars.DataFrame(rows, infer_schema_length=None)


def html_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return an HTML table with one row per record, for `_repr_html_`. Columns are the keys of the first record."""
    columns = list(records[0]) if records else []
    head = "".join(f"<th>{escape(str(column))}</th>" for column in columns)
    rows = ("".join(f"<td>{_format_cell(record.get(column))}</td>" for column in columns) for record in records)
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _format_cell(value: Any) -> str:
    return escape("" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value))
