"""How the cost of self-attention grows with n and d, compared with recurrent and convolutional layers."""

from __future__ import annotations

from typing import Any

from regard.theory.cost import reference_layers

PLOTTED = ("self-attention", "local", "convolution", "rnn", "gru", "lstm")


def doublings(low: int, high: int) -> list[int]:
    """low, 2 low, 4 low, ... up to high."""
    values = [max(1, low)]
    while values[-1] * 2 <= high:
        values.append(values[-1] * 2)
    return values


def flops_by_length(d: int, max_length: int) -> list[dict[str, Any]]:
    """Curves of the FLOPs of one layer of width d, for lengths up to max_length."""
    lengths = doublings(16, max(32, max_length))
    return [
        {"name": name, "x": lengths, "y": [reference_layers.layer_flops(name, n, d) for n in lengths]}
        for name in PLOTTED
    ]


def flops_by_width(n: int, max_width: int) -> list[dict[str, Any]]:
    """Curves of the FLOPs of one layer on n positions, for widths up to max_width."""
    widths = doublings(16, max(32, max_width))
    return [
        {"name": name, "x": widths, "y": [reference_layers.layer_flops(name, n, d) for d in widths]} for name in PLOTTED
    ]


def crossover_lengths(d: int) -> dict[str, int | None]:
    """The length from which self-attention of width d costs more than each recurrent layer; None: at any length."""
    return {name: reference_layers.crossover_length(name, d) for name in ("gru", "lstm", "rnn")}
