"""Every mechanism, by name. One file is one mechanism; a file dropped in here is found by itself."""

from __future__ import annotations

from typing import Any

from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import PositionEncoding
from regard.config import specs
from regard.config.registry import Registry

COMMON = {"self", "dim", "heads", "context_dim", "value_width", "positions", "bias"}

MECHANISMS: Registry[type[Mechanism]] = Registry("mechanism", Mechanism)


def build(
    spec: str | Mechanism,
    dim: int,
    heads: int,
    *,
    context_dim: int | None = None,
    value_width: int | None = None,
    positions: PositionEncoding | None = None,
    bias: bool = True,
    **options: Any,
) -> Mechanism:
    """`"dot"`, `"local:window=64"`, or a ready object."""
    if isinstance(spec, Mechanism):
        return spec
    name, given = specs.parse(spec)
    cls = MECHANISMS.find(name)
    own = specs.typed("mechanism", name, cls, {**given, **options}, COMMON)
    return cls(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias, **own)


MECHANISMS.register_package(__name__, __path__)

__all__ = ["MECHANISMS", "Mechanism", "build"]
