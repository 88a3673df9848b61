"""Figures for people: as many digits as the interval around them bears out, and no needless powers of ten."""

from __future__ import annotations

import math

MOST = 5
"""Digits behind the point."""


def digits(width: float) -> int | None:
    """Behind the point, so that an interval of this width shows two figures; None where there is no width."""
    if not math.isfinite(width) or width <= 0:
        return None
    return min(MOST, max(0, 1 - math.floor(math.log10(width))))


def plain(value: float, places: int | None) -> str:
    """So many digits behind the point; without a number, four figures. What is too large has a power of ten."""
    if not math.isfinite(value) or abs(value) >= 1e7:
        return f"{value:.3g}"
    if places is None:
        places = min(MOST, max(0, 3 - math.floor(math.log10(abs(value))))) if value else 0
    return f"{round(value, places) + 0.0:,.{places}f}"  # + 0.0: nothing is -0.00


def shown(value: float, kind: str, width: float = 0.0) -> str:
    """A measure, with an interval of this width around it: a share in percent."""
    if kind != "percent":
        return plain(value, digits(width))
    return f"{plain(100 * value, max(1, digits(100 * width) or 1))} %"


def gap(value: float, kind: str, width: float = 0.0) -> str:
    """A difference of two measures."""
    if kind != "percent":
        return plain(value, digits(width))
    places = max(1, digits(100 * width) or 1)
    return f"{plain(100 * value, places)} points"


def interval(low: float, high: float, kind: str) -> str:
    return f"{shown(low, kind, high - low)} to {shown(high, kind, high - low)}"


def chance(p: float) -> str:
    """A p value."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def more_seeds(count: int) -> str:
    return f"{count:,} more seed{'' if count == 1 else 's'}"
