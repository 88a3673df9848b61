"""Quality against cost as inline SVG, with the front: the designs that no other beats in both."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from regard.pages.learning_curves import apart, ticks

Point = tuple[str, float, float, float, float]
"""Name, cost, quality, and the ends of its interval."""


def front(points: Sequence[Point], better: str) -> list[str]:
    """Names of those for which no other is at least as good and at most as costly, and one of the two truly."""
    sign = 1 if better == "max" else -1
    kept = []
    for name, cost, quality, *_ in points:
        others = [(c, sign * q) for n, c, q, *_ in points if n != name]
        mine = sign * quality
        if not any(c <= cost and q >= mine and (c < cost or q > mine) for c, q in others):
            kept.append(name)
    return kept


def drawing(
    points: Sequence[Point], *, x_label: str, y_label: str, better: str, width: int, height: int = 320
) -> Markup:
    """Costs on a scale of powers of ten; each design with its interval, the front joined by a line."""
    if not points:
        return Markup("")
    costs = [math.log10(max(cost, 1e-12)) for _, cost, *_ in points]
    x_low, x_high = math.floor(min(costs) - 0.05), math.ceil(max(costs) + 0.05)
    y_ticks = ticks(min(low for *_, low, _ in points), max(high for *_, high in points), 5)
    letters = 30 if width >= 500 else 15
    margin = 26 + 6.6 * max(len(_short(name, letters)) for name, *_ in points)
    left, right, top, bottom = 56, width - margin, 26, height - 46

    def x_at(cost: float) -> float:
        return left + (math.log10(max(cost, 1e-12)) - x_low) / max(x_high - x_low, 1) * (right - left)

    def y_at(value: float) -> float:
        return bottom - (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (bottom - top)

    parts = [
        f'<svg class="curves" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(y_label)} against {escape(x_label)}">'
    ]
    for tick in y_ticks:
        y = y_at(tick)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{right:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    for power in range(x_low, x_high + 1):
        x = x_at(10.0**power)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{_power(power)}</text>')
    parts.append(f'<path class="axis" d="M{left} {bottom}H{right:.1f}"/>')
    parts.append(f'<text x="{(left + right) / 2:.0f}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text x="0" y="14">{escape(y_label)}</text>')
    best = front(points, better)
    line = sorted((x_at(c), y_at(q)) for n, c, q, *_ in points if n in best)
    if len(line) > 1:
        parts.append('<path class="front" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in line) + '"/>')
    places = apart([y_at(quality) for _, _, quality, *_ in points], 16, top, bottom)
    for (name, cost, quality, low, high), level in zip(points, places, strict=True):
        x, y = x_at(cost), y_at(quality)
        on = " on" if name in best else ""
        parts.append(f'<path class="reach{on}" d="M{x:.1f} {y_at(low):.1f}V{y_at(high):.1f}"/>')
        parts.append(f'<path class="leader" d="M{x + 6:.1f} {y:.1f}L{right + 6:.1f} {level:.1f}"/>')
        parts.append(
            f'<circle class="dot{on}" r="4.5" cx="{x:.1f}" cy="{y:.1f}"><title>{escape(name)}</title></circle>'
        )
        parts.append(
            f'<text class="name" x="{right + 10:.1f}" y="{level + 4:.1f}">{escape(_short(name, letters))}</text>'
        )
    return Markup("\n".join(map(str, parts)) + "\n</svg>")


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 4 else f"1e{power}"
