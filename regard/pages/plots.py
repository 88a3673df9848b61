"""Plots as inline SVG: line plots, reliability diagrams, and quality against cost.

They are drawn in Python rather than in the browser, so that they print and need no script. Curves differ in color (the
palette of Okabe and Ito, safe for color-blind readers), in dashes, and by a label at their end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from regard.errors import UserError

DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2"]
NUM_COLORS = 6  # --curve-0 ... in report.css
LEFT, TOP, BOTTOM = 64, 26, 46  # margins
LABEL_GAP = 16  # least distance between the labels of two curves
MAX_LABEL = 30  # characters
HISTOGRAM_HEIGHT = 44
PROBABILITY_TICKS = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]

Point = tuple[float, float]
ScatterPoint = tuple[str, float, float, float, float]
"""Name, cost, quality, and the lower and upper end of the quality's interval."""


def line_plot(
    curves: Sequence[dict[str, Any]],
    *,
    x_label: str,
    y_label: str,
    log: str = "",
    width: int = 760,
    height: int = 300,
    marks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Draw curves on one pair of axes.

    Args:
        curves: Each {"name", "x", "y"}, with "low" and "high" for a band. None and NaN are left out.
        log: The logarithmic axes: "", "x", "y" or "xy".
        width: Plots narrower than 560 have their legend below the axes instead of at the ends of the curves.
        marks: Labelled vertical lines, (x, label) each.

    Returns:
        The SVG element, or "" if no curve has a point.
    """
    lines = [_points(curve, "y", log) for curve in curves]
    bands = [_points(c, "high", log) + _points(c, "low", log)[::-1] if "low" in c else [] for c in curves]
    points = [point for line in (*lines, *bands) for point in line]
    if not points:
        return Markup("")
    names = [_truncate(str(curve["name"]), MAX_LABEL) for curve in curves]
    labels_at_end = width >= 560
    right = width - (min(240, 24 + 7 * max(map(len, names))) if labels_at_end else 14)
    x_ticks = _axis_ticks([x for x, _ in points], "x" in log, 6 if labels_at_end else 4)
    y_ticks = _axis_ticks([y for _, y in points], "y" in log, 5)
    legend_height = 0 if labels_at_end else 20 * len(lines)
    axes = _Axes(width, height, right, x_ticks, y_ticks, x_label, y_label, log=log, legend_height=legend_height)
    for value, label in marks:
        x = axes.x(value)
        axes.add(f'<path class="leader" d="M{x:.1f} {TOP}V{axes.bottom}"/>')
        axes.add(f'<text x="{x + 4:.1f}" y="{TOP + 10}">{escape(label)}</text>')
    end_y = _space_out([axes.y(line[-1][1]) if line else TOP for line in lines], axes.bottom)
    for number, (name, line, band) in enumerate(zip(names, lines, bands, strict=True)):
        color = f"var(--curve-{number % NUM_COLORS})"
        style = f'style="--curve:{color}" stroke-dasharray="{DASHES[number % len(DASHES)]}"'
        if band:
            axes.add(f'<path style="fill:{color};opacity:.14" d="{axes.path(band)}Z"/>')
        if line:
            title = escape(str(curves[number]["name"]))
            axes.add(f'<path class="curve" {style} d="{axes.path(line)}"><title>{title}</title></path>')
        if len(line) == 1:
            axes.add(f'<circle {style} r="3" cx="{axes.x(line[0][0]):.1f}" cy="{axes.y(line[0][1]):.1f}"/>')
        x, y = (right + 8, end_y[number] + 4) if labels_at_end else (LEFT + 36, height + 20 * number + 10)
        if not labels_at_end:
            axes.add(f'<path class="curve" {style} d="M{LEFT} {y - 4}h28"/>')
        elif line:
            last_x, last_y = axes.x(line[-1][0]), axes.y(line[-1][1])
            axes.add(f'<path class="leader" d="M{last_x + 2:.1f} {last_y:.1f}L{right + 5:.1f} {y - 4:.1f}"/>')
        axes.add(f'<text class="name" x="{x:.1f}" y="{y:.1f}">{escape(name)}</text>')
    return axes.svg()


def reliability_diagram(bins: Sequence[dict[str, Any]], *, label: str, width: int = 400, height: int = 400) -> Markup:
    """Draw accuracy against confidence: a point with its 95 % interval per bin, and a histogram of the bins below.

    Args:
        bins: As `regard.tasks.recall.calibration.reliability` returns them.
        label: Description for screen readers.
    """
    if not bins:
        return Markup("")
    ticks = PROBABILITY_TICKS
    axes = _Axes(
        width, height, width - 14, ticks, ticks, "confidence", "accuracy", label=label, inset=HISTOGRAM_HEIGHT, left=46
    )
    axes.add(f'<path class="even" d="{axes.path([(0, 0), (1, 1)])}"/>')
    largest = max(row["count"] for row in bins)
    for row in bins:
        bar = HISTOGRAM_HEIGHT * row["count"] / largest
        start, end = axes.x(row["from"]) + 1, axes.x(row["to"]) - 1
        axes.add(
            f'<rect class="count" x="{start:.1f}" y="{axes.bottom - bar:.1f}" width="{end - start:.1f}" '
            f'height="{bar:.1f}"><title>{row["count"]:,} answers</title></rect>'
        )
    style = 'style="--curve:var(--curve-0)"'
    axes.add(f'<path class="curve" {style} d="{axes.path([(row["confidence"], row["right"]) for row in bins])}"/>')
    for row in bins:
        x, y = axes.x(row["confidence"]), axes.y(row["right"])
        title = f"confidence {row['confidence']:.2f}: {row['right']:.0%} of {row['count']:,} correct"
        axes.add(f'<path class="interval" {style} d="M{x:.1f} {axes.y(row["low"]):.1f}V{axes.y(row["high"]):.1f}"/>')
        axes.add(f'<circle {style} r="4" cx="{x:.1f}" cy="{y:.1f}"><title>{title}</title></circle>')
    return axes.svg()


def pareto_plot(
    points: Sequence[ScatterPoint], front: Sequence[str], *, x_label: str, y_label: str, width: int, height: int = 320
) -> Markup:
    """Draw quality against cost (logarithmic), with intervals; the points named in `front` are joined by a line."""
    if not points:
        return Markup("")
    powers = [math.log10(max(cost, 1e-12)) for _, cost, *_ in points]
    x_ticks = [10.0**power for power in range(math.floor(min(powers) - 0.05), math.ceil(max(powers) + 0.05) + 1)]
    y_ticks = linear_ticks(min(low for *_, low, _ in points), max(high for *_, high in points), 5)
    max_label = MAX_LABEL if width >= 500 else 15
    right = width - (26 + 6.6 * max(len(_truncate(name, max_label)) for name, *_ in points))
    axes = _Axes(width, height, right, x_ticks, y_ticks, x_label, y_label, log="x")
    line = sorted((max(cost, 1e-12), quality) for name, cost, quality, *_ in points if name in front)
    if len(line) > 1:
        axes.add(f'<path class="front" d="{axes.path(line)}"/>')
    label_y = _space_out([axes.y(quality) for _, _, quality, *_ in points], axes.bottom)
    for (name, cost, quality, low, high), level in zip(points, label_y, strict=True):
        x, y = axes.x(max(cost, 1e-12)), axes.y(quality)
        on = " on" if name in front else ""
        axes.add(f'<path class="interval{on}" d="M{x:.1f} {axes.y(low):.1f}V{axes.y(high):.1f}"/>')
        axes.add(f'<path class="leader" d="M{x + 6:.1f} {y:.1f}L{right + 6:.1f} {level:.1f}"/>')
        axes.add(f'<circle class="dot{on}" r="4.5" cx="{x:.1f}" cy="{y:.1f}"><title>{escape(name)}</title></circle>')
        text = escape(_truncate(name, max_label))
        axes.add(f'<text class="name" x="{right + 10:.1f}" y="{level + 4:.1f}">{text}</text>')
    return axes.svg()


class _Axes:
    """One pair of axes: `x` and `y` map values to SVG coordinates, `add` appends an element."""

    def __init__(
        self,
        width: int,
        height: int,
        right: float,
        x_ticks: list[float],
        y_ticks: list[float],
        x_label: str,
        y_label: str,
        *,
        log: str = "",
        label: str = "",
        left: int = LEFT,
        inset: int = 0,
        legend_height: int = 0,
    ):
        bottom = self.bottom = height - BOTTOM
        self.x = _scale(x_ticks, left, right, "x" in log)
        self.y = _scale(y_ticks, bottom - inset, TOP, "y" in log)
        label = label or f"{y_label} against {x_label}"
        size = f"{width} {height + legend_height}"
        self._parts = [f'<svg class="curves" viewBox="0 0 {size}" role="img" aria-label="{escape(label)}">']
        for tick in y_ticks:
            y, text = self.y(tick), _format_tick(tick, y_ticks, "y" in log)
            self.add(f'<path class="grid" d="M{left} {y:.1f}H{right:.1f}"/>')
            self.add(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for tick in x_ticks:
            x, text = self.x(tick), _format_tick(tick, x_ticks, "x" in log)
            self.add(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
            self.add(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>')
        self.add(f'<path class="axis" d="M{left} {bottom}H{right:.1f}"/>')
        self.add(f'<text x="{(left + right) / 2:.0f}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>')
        self.add(f'<text x="0" y="14">{escape(y_label)}</text>')

    def add(self, element: str) -> None:
        self._parts.append(element)

    def path(self, points: Sequence[Point]) -> str:
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)

    def svg(self) -> Markup:
        return Markup("\n".join(self._parts) + "\n</svg>")


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten) that cover low..high."""
    if high <= low:
        padding = abs(low) * 0.1 or 1.0
        low, high = low - padding, high + padding
    min_step = (high - low) / count
    power = 10.0 ** math.floor(math.log10(min_step))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= min_step * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _axis_ticks(values: list[float], log: bool, count: int) -> list[float]:
    low, high = min(values), max(values)
    if not log:
        return linear_ticks(low, high, count)
    base = 10.0 if high / low > 300 else 2.0
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    last = max(last, first + 1)
    step = max(1, -(-(last - first) // count))
    return [base**power for power in range(first, last + step, step)]


def _points(curve: dict[str, Any], key: str, log: str) -> list[Point]:
    """The finite points of a curve; on a logarithmic axis the positive ones."""
    if len(curve["x"]) != len(curve[key]):
        raise UserError(
            f"curve {curve['name']!r} has {len(curve['x'])} x for {len(curve[key])} {key}; expected as many"
        )
    pairs = zip(curve["x"], curve[key], strict=True)
    points = [(float(x), float(y)) for x, y in pairs if x is not None and y is not None and math.isfinite(x + y)]
    return [(x, y) for x, y in points if (x > 0 or "x" not in log) and (y > 0 or "y" not in log)]


def _scale(ticks: list[float], start: float, stop: float, log: bool) -> Callable[[float], float]:
    transform: Callable[[float], float] = math.log if log else float
    low, high = transform(ticks[0]), transform(ticks[-1])
    return lambda value: start + (stop - start) * (transform(value) - low) / ((high - low) or 1.0)


def _format_tick(tick: float, ticks: list[float], log: bool) -> str:
    """Powers of ten for very large and very small numbers; on a linear axis as many digits as the step needs."""
    if tick and (abs(tick) >= (1e5 if log else 1e6) or (log and abs(tick) < 1e-3)):
        power = math.floor(math.log10(abs(tick)) + 1e-9)
        factor = tick / 10**power
        exponent = "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return exponent if abs(factor - 1) < 1e-6 else f"{factor:.2g}·{exponent}"
    if log and abs(tick) < 1000:
        return f"{tick:.4g}"
    step = ticks[1] - ticks[0]
    digits = 0 if log else max(0, -math.floor(math.log10(step) + 1e-9))
    digits += not log and step < 10 and f"{step:.1e}".startswith("2.5")
    text = f"{tick:,.{digits}f}".replace(",", "\u202f")
    return text if round(tick, 9) else text.replace("-0", "0")


def _truncate(name: str, max_length: int) -> str:
    return name if len(name) <= max_length else name[: max_length - 1] + "…"


def _space_out(positions: list[float], bottom: float) -> list[float]:
    """Move labels down until they are LABEL_GAP apart, then all of them up if the last one is below the axis."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    result = list(positions)
    for above, below in pairwise(order):
        result[below] = max(result[below], result[above] + LABEL_GAP)
    excess = max(0.0, max(result) - bottom)
    return [max(TOP, y - excess) if excess else y for y in result]
