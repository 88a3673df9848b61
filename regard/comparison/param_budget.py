"""A model of a given number of parameters: all its widths in proportion, as wide as fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from regard.errors import UserError

WIDTHS = ("dim", "hidden", "embed", "attention", "features", "maps")
LEAST = 8


def sized(config: Any, wanted: int, count: Callable[[Any], int]) -> Any:
    """The model's Config with its widths so that it has at most `wanted` parameters, and as many as that allows;
    `count` tells how many a Config has."""
    widths = {f.name: v for f in dataclasses.fields(config) if f.name in WIDTHS and (v := getattr(config, f.name))}
    if not widths:
        raise UserError(f"{type(config).__module__} has no widths by which it could be sized")
    # rotary positions want an even width for each head
    step = 2 * int(getattr(config, "heads", 1))
    low, high = LEAST / max(widths.values()), 64.0
    best = _scaled(config, widths, low, step)
    least = count(best)
    if least > wanted:
        raise UserError(f"even at its narrowest it has {least:,} parameters, more than the {wanted:,} that are allowed")
    for _ in range(24):
        middle = (low * high) ** 0.5
        tried = _scaled(config, widths, middle, step)
        if count(tried) <= wanted:
            low, best = middle, tried
        else:
            high = middle
    return best


def _scaled(config: Any, widths: Mapping[str, int], factor: float, step: int) -> Any:
    return dataclasses.replace(config, **{k: max(step, round(v * factor / step) * step) for k, v in widths.items()})
