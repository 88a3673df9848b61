"""How costs grow: self-attention beside recurrent and convolutional layers, against n and against d, and where they
cross."""

from __future__ import annotations

from typing import Any

from regard.theory.cost import reference_layers

AGAINST = ("self-attention", "local", "convolution", "rnn", "gru", "lstm")


def doublings(low: int, high: int) -> list[int]:
    """low, 2 low, 4 low, ... up to high."""
    found = [max(1, low)]
    while found[-1] * 2 <= high:
        found.append(found[-1] * 2)
    return found


def against_n(d: int, longest: int) -> list[dict[str, Any]]:
    """FLOPs of one layer of width d for lengths up to the longest, as curves."""
    ns = doublings(16, max(32, longest))
    return [{"name": name, "x": ns, "y": [reference_layers.flops(name, n, d) for n in ns]} for name in AGAINST]


def against_d(n: int, widest: int) -> list[dict[str, Any]]:
    """FLOPs of one layer on n places for widths up to the widest."""
    ds = doublings(16, max(32, widest))
    return [{"name": name, "x": ds, "y": [reference_layers.flops(name, n, d) for d in ds]} for name in AGAINST]


def crossings(d: int) -> dict[str, int | None]:
    """The length from which self-attention of width d costs more than each recurrent layer; None: at any length."""
    return {name: reference_layers.crossing(name, d) for name in ("gru", "lstm", "rnn")}
