"""How often answers are right against how sure they are, as inline SVG.

A point is a bin of confidence, with the 95 % interval of the share that is right; on the dashed line confidence is what
it says it is. The bars below say how many answers are in each bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
BARS = 44  # height of the counts


def drawing(rows: Sequence[dict[str, Any]], *, label: str, width: int = 400, height: int = 400) -> Markup:
    """`rows` as `recall.calibration.reliability` gives them."""
    if not rows:
        return Markup("")
    left, right, top, bottom = 46, width - 14, 26, height - 46 - BARS

    def x_at(value: float) -> float:
        return left + value * (right - left)

    def y_at(value: float) -> float:
        return bottom - value * (bottom - top)

    parts = [f'<svg class="curves" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">']
    for tick in TICKS:
        x, y = x_at(tick), y_at(tick)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.1f}</text>')
        parts.append(f'<text x="{x:.1f}" y="{height - 26}" text-anchor="middle">{tick:.1f}</text>')
    parts.append(f'<path class="even" d="M{left} {bottom}L{right} {top}"/>')
    most = max(row["count"] for row in rows)
    for row in rows:
        tall = BARS * row["count"] / most
        start, end = x_at(row["from"]) + 1, x_at(row["to"]) - 1
        told = f"{row['count']:,} answers"
        parts.append(
            f'<rect class="count" x="{start:.1f}" y="{height - 44 - tall:.1f}" width="{end - start:.1f}" '
            f'height="{tall:.1f}"><title>{told}</title></rect>'
        )
    line = [(x_at(row["confidence"]), y_at(row["right"])) for row in rows]
    style = 'style="--curve:var(--curve-0)"'
    parts.append(f'<path class="curve" {style} d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in line) + '"/>')
    for row, (x, y) in zip(rows, line, strict=True):
        told = f"sure {row['confidence']:.2f}: {row['right']:.0%} of {row['count']:,} right"
        parts.append(f'<path class="reach" {style} d="M{x:.1f} {y_at(row["low"]):.1f}V{y_at(row["high"]):.1f}"/>')
        parts.append(f'<circle {style} r="4" cx="{x:.1f}" cy="{y:.1f}"><title>{escape(told)}</title></circle>')
    parts.append(f'<path class="axis" d="M{left} {height - 44}H{right}"/>')
    parts.append(f'<text x="{(left + right) / 2:.0f}" y="{height - 6}" text-anchor="middle">confidence</text>')
    parts.append('<text x="0" y="14">share that is right</text>')
    return Markup("\n".join(map(str, parts)) + "\n</svg>")
