"""Learning curves as inline SVG, made here rather than in the browser, so that they print and need no script.

Curves differ in colour (Okabe and Ito's palette, safe for the colour-blind), in dashes and by a label at their end.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from regard.errors import UserError

DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2"]
COLOURS = 6  # --curve-0 ... in report.css


def drawing(curves: list[dict[str, Any]], *, x_label: str, y_label: str, width: int, height: int = 300) -> Markup:
    """The curves on one pair of axes, `width` by `height` units."""
    lines = [(str(curve["name"]), _points(curve)) for curve in curves]
    points = [point for _, line in lines for point in line]
    if not points:
        return Markup("")
    names = [name for name, _ in lines]
    # The names stand beside the ends where there is room, under the drawing where there is not.
    beside = width >= 560
    margin = min(240, 22 + 7 * max(len(_short(name)) for name in names)) if beside else 14
    x_ticks = ticks(min(x for x, _ in points), max(x for x, _ in points), 6 if beside else 4)
    y_ticks = ticks(min(y for _, y in points), max(y for _, y in points), 5)
    left, top, bottom = 56, 26, 46
    right = width - margin
    x_at = _scale(min(x_ticks[0], points[0][0]), x_ticks[-1], left, right)
    y_at = _scale(y_ticks[0], y_ticks[-1], height - bottom, top)
    rows = 0 if beside else len(lines)
    parts = [
        f'<svg class="curves" viewBox="0 0 {width} {height + 20 * rows}" role="img" '
        f'aria-label="{escape(y_label)} against {escape(x_label)}">'
    ]
    for tick in y_ticks:
        y = y_at(tick)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{right:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{_figure(tick, y_ticks)}</text>')
    for tick in x_ticks:
        x = x_at(tick)
        parts.append(f'<path class="axis" d="M{x:.1f} {height - bottom}v4"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{_figure(tick, x_ticks)}</text>'
        )
    parts.append(f'<path class="axis" d="M{left} {height - bottom}H{right:.1f}"/>')
    parts.append(f'<text x="{(left + right) / 2:.0f}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text x="0" y="14">{escape(y_label)}</text>')
    ends = apart([y_at(line[-1][1]) if line else top for _, line in lines], 16, top, height - bottom)
    for number, (name, line) in enumerate(lines):
        style = f'style="--curve:var(--curve-{number % COLOURS})" stroke-dasharray="{DASHES[number % len(DASHES)]}"'
        path = "M" + "L".join(f"{x_at(x):.1f} {y_at(y):.1f}" for x, y in line)
        if line:
            parts.append(f'<path class="curve" {style} d="{path}"><title>{escape(name)}</title></path>')
        if line and len(line) == 1:
            parts.append(f'<circle {style} r="3" cx="{x_at(line[0][0]):.1f}" cy="{y_at(line[0][1]):.1f}"/>')
        x, y = (right + 8, ends[number] + 4) if beside else (left + 36, height + 20 * number + 10)
        if beside and line:
            near = x_at(line[-1][0])
            parts.append(
                f'<path class="leader" d="M{near + 2:.1f} {y_at(line[-1][1]):.1f}L{right + 5:.1f} {y - 4:.1f}"/>'
            )
        elif not beside:
            parts.append(f'<path class="curve" {style} d="M{left} {y - 4}h28"/>')
        parts.append(f'<text class="name" x="{x:.1f}" y="{y:.1f}">{escape(_short(name))}</text>')
    return Markup("\n".join(map(str, parts)) + "\n</svg>")


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten) that cover low..high."""
    if high <= low:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _points(curve: dict[str, Any]) -> list[tuple[float, float]]:
    if len(curve["x"]) != len(curve["y"]):
        raise UserError(f"curve {curve['name']!r} has {len(curve['x'])} x for {len(curve['y'])} y; expected as many")
    pairs = zip(curve["x"], curve["y"], strict=True)
    return [(float(x), float(y)) for x, y in pairs if x is not None and y is not None and math.isfinite(x + y)]


def _scale(low: float, high: float, start: float, stop: float) -> Any:
    return lambda value: start + (stop - start) * (value - low) / ((high - low) or 1.0)


def _figure(tick: float, among: list[float]) -> str:
    step = among[1] - among[0]
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (1 if f"{step:.1e}".startswith("2.5") and step < 10 else 0)
    if abs(tick) >= 1e6:
        return f"{tick:.3g}"
    return f"{tick:,.{digits}f}".replace(",", "\u202f").replace("-0", "0" if not round(tick, 9) else "-0")


def _short(name: str) -> str:
    return name if len(name) <= 30 else name[:29] + "…"


def apart(wanted: list[float], gap: float, top: float, bottom: float) -> list[float]:
    """Positions near the wanted ones, at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    for before, after in pairwise(order):
        placed[after] = max(placed[after], placed[before] + gap)
    over = max(0.0, max(placed) - bottom)
    return [max(top, y - over) if over else y for y in placed]
