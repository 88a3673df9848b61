"""Curves on axes that may be logarithmic, as inline SVG in the style of the report's learning curves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup, escape

from regard.pages.learning_curves import COLOURS, DASHES, ticks

LEFT, TOP, BOTTOM = 64, 26, 46


def plot(
    curves: Sequence[dict[str, Any]],
    *,
    x_label: str,
    y_label: str,
    log: str = "",
    width: int = 760,
    height: int = 300,
    marks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Curves, each {"name", "x", "y"}, with "low" and "high" for a band; `log` names logarithmic axes; `marks` are
    places on the x axis with a word to each."""
    lines = [(str(c["name"]), _points(c, log)) for c in curves]
    points = [p for _, line in lines for p in line] + [p for c in curves for p in _band(c, log)]
    if not points:
        return Markup("")
    x_ticks = _ticks([x for x, _ in points], "x" in log, 6)
    y_ticks = _ticks([y for _, y in points], "y" in log, 5)
    right = width - min(220, 24 + 7 * max(len(name) for name, _ in lines))
    bottom = height - BOTTOM
    x_at, y_at = _scale(x_ticks, LEFT, right, "x" in log), _scale(y_ticks, bottom, TOP, "y" in log)
    parts = [
        f'<svg class="curves" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(y_label)} against {escape(x_label)}">'
    ]
    for tick in y_ticks:
        parts.append(f'<path class="grid" d="M{LEFT} {y_at(tick):.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y_at(tick) + 4:.1f}" text-anchor="end">{_figure(tick)}</text>')
    for tick in x_ticks:
        parts.append(f'<path class="axis" d="M{x_at(tick):.1f} {bottom}v4"/>')
        parts.append(f'<text x="{x_at(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{_figure(tick)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{right}"/>')
    parts.append(f'<text x="{(LEFT + right) / 2:.0f}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text x="0" y="14">{escape(y_label)}</text>')
    for at, word in marks:
        x = x_at(at)
        parts.append(f'<path class="leader" d="M{x:.1f} {TOP}V{bottom}"/>')
        parts.append(f'<text x="{x + 4:.1f}" y="{TOP + 10}">{escape(word)}</text>')
    ends = _apart([y_at(line[-1][1]) if line else TOP for _, line in lines])
    for number, ((name, line), curve) in enumerate(zip(lines, curves, strict=True)):
        if not line:
            continue
        style = f'style="--curve:var(--curve-{number % COLOURS})" stroke-dasharray="{DASHES[number % len(DASHES)]}"'
        band = _band(curve, log)
        if band:
            path = "M" + "L".join(f"{x_at(x):.1f} {y_at(y):.1f}" for x, y in band) + "Z"
            parts.append(f'<path style="fill:var(--curve-{number % COLOURS});opacity:.14" d="{path}"/>')
        path = "M" + "L".join(f"{x_at(x):.1f} {y_at(y):.1f}" for x, y in line)
        parts.append(f'<path class="curve" {style} d="{path}"><title>{escape(name)}</title></path>')
        x, y = line[-1]
        parts.append(
            f'<path class="leader" d="M{x_at(x) + 2:.1f} {y_at(y):.1f}L{right + 5:.1f} {ends[number]:.1f}"/>'
            f'<text class="name" x="{right + 8}" y="{ends[number] + 4:.1f}">{escape(name)}</text>'
        )
    return Markup("\n".join(map(str, parts)) + "\n</svg>")


def _points(curve: dict[str, Any], log: str) -> list[tuple[float, float]]:
    pairs = zip(curve["x"], curve["y"], strict=True)
    return [(float(x), float(y)) for x, y in pairs if _drawn(x, y, log)]


def _band(curve: dict[str, Any], log: str) -> list[tuple[float, float]]:
    """Along the upper bounds and back along the lower ones."""
    if "low" not in curve:
        return []
    high = [(float(x), float(y)) for x, y in zip(curve["x"], curve["high"], strict=True) if _drawn(x, y, log)]
    low = [(float(x), float(y)) for x, y in zip(curve["x"], curve["low"], strict=True) if _drawn(x, y, log)]
    return high + low[::-1]


def _drawn(x: float | None, y: float | None, log: str) -> bool:
    if x is None or y is None or not math.isfinite(x + y):
        return False
    return not (("x" in log and x <= 0) or ("y" in log and y <= 0))


def _ticks(values: list[float], log: bool, count: int) -> list[float]:
    low, high = min(values), max(values)
    if not log:
        return ticks(low, high, count)
    base = 10.0 if high / low > 300 else 2.0
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    step = max(1, -(-(max(last, first + 1) - first) // count))
    return [base**power for power in range(first, max(last, first + 1) + step, step)]


def _scale(among: list[float], start: float, stop: float, log: bool) -> Callable[[float], float]:
    see: Callable[[float], float] = math.log if log else float
    low, high = see(among[0]), see(among[-1])
    return lambda value: start + (stop - start) * (see(value) - low) / ((high - low) or 1.0)


def _figure(tick: float) -> str:
    if tick and (abs(tick) >= 1e5 or abs(tick) < 1e-3):
        power = math.floor(math.log10(abs(tick)) + 1e-9)
        head = tick / 10**power
        small = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{small}" if abs(head - 1) < 1e-6 else f"{head:.2g}·10{small}"
    return f"{tick:,.0f}".replace(",", "\u202f") if abs(tick) >= 1000 else f"{tick:.4g}"


def _apart(wanted: list[float], gap: float = 16) -> list[float]:
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    for before, after in itertools.pairwise(order):
        placed[after] = max(placed[after], placed[before] + gap)
    return placed
