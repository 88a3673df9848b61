"""Scale a model to a number of parameters: all its widths in proportion, as wide as the budget allows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from regard.errors import UserError

WIDTHS = ("dim", "hidden", "embed", "attention", "features", "filters")
MIN_WIDTH = 8


def scale_config(config: Any, max_params: int, count_params: Callable[[Any], int]) -> Any:
    """Return the model config with its widths scaled so that it has at most `max_params` parameters.

    Args:
        config: A dataclass with fields of `WIDTHS`.
        count_params: Returns the number of parameters of a config.
    """
    widths = {f.name: v for f in dataclasses.fields(config) if f.name in WIDTHS and (v := getattr(config, f.name))}
    if not widths:
        raise UserError(f"{type(config).__name__} has no widths to scale: leave out the budget for parameters")
    step = 2 * int(getattr(config, "heads", 1))  # rotary positions need an even width per head
    low, high = MIN_WIDTH / max(widths.values()), 64.0
    best = _with_widths(config, widths, low, step)
    min_params = count_params(best)
    if min_params > max_params:
        raise UserError(f"its narrowest version has {min_params:,} parameters, more than the budget of {max_params:,}")
    for _ in range(24):
        factor = (low * high) ** 0.5
        candidate = _with_widths(config, widths, factor, step)
        if count_params(candidate) <= max_params:
            low, best = factor, candidate
        else:
            high = factor
    return best


def _with_widths(config: Any, widths: Mapping[str, int], factor: float, step: int) -> Any:
    return dataclasses.replace(config, **{k: max(step, round(v * factor / step) * step) for k, v in widths.items()})
