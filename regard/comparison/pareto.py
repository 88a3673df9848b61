"""The Pareto front of quality and cost: the designs that no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence

from regard.pages.plots import ScatterPoint


def pareto_front(points: Sequence[ScatterPoint], better: str) -> list[str]:
    """Names of the points for which no other has at least the quality at no more cost, and is better in one of them.

    Args:
        points: Name, cost, quality, and the ends of its interval.
        better: "max" if a higher quality is better, "min" if a lower one is.
    """
    sign = 1 if better == "max" else -1
    front = []
    for name, cost, quality, *_ in points:
        others = [(c, sign * q) for n, c, q, *_ in points if n != name]
        own = sign * quality
        if not any(c <= cost and q >= own and (c < cost or q > own) for c, q in others):
            front.append(name)
    return front
