"""Format numbers for reports: as many digits as their interval supports, and no needless powers of ten."""

from __future__ import annotations

import math

MAX_DECIMALS = 5


def decimals_for(width: float) -> int | None:
    """Return the number of decimals at which an interval of this width shows two digits; None without a width."""
    if not math.isfinite(width) or width <= 0:
        return None
    return min(MAX_DECIMALS, max(0, 1 - math.floor(math.log10(width))))


def format_number(value: float, decimals: int | None) -> str:
    """Format with this many decimals; None for four significant digits. Very large values get an exponent."""
    if not math.isfinite(value) or abs(value) >= 1e7:
        return f"{value:.3g}"
    if decimals is None:
        decimals = min(MAX_DECIMALS, max(0, 3 - math.floor(math.log10(abs(value))))) if value else 0
    return f"{round(value, decimals) + 0.0:,.{decimals}f}"  # + 0.0 turns -0.0 into 0.0


def _format(value: float, kind: str, width: float, percent_unit: str) -> str:
    if kind != "percent":
        return format_number(value, decimals_for(width))
    return f"{format_number(100 * value, max(1, decimals_for(100 * width) or 1))} {percent_unit}"


def format_metric(value: float, kind: str, width: float = 0.0) -> str:
    """Format a metric whose interval has this width; fractions (kind "percent") as percent."""
    return _format(value, kind, width, "%")


def format_difference(value: float, kind: str, width: float = 0.0) -> str:
    """Format the difference of two metrics; of fractions, in percentage points."""
    return _format(value, kind, width, "points")


def format_interval(low: float, high: float, kind: str) -> str:
    return f"{format_metric(low, kind, high - low)} to {format_metric(high, kind, high - low)}"


def format_p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_more_seeds(count: int) -> str:
    return f"{count:,} more seed{'' if count == 1 else 's'}"
