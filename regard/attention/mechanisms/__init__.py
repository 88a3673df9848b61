"""Attention mechanisms by name. Each file defines one; a new file in this folder is registered automatically."""

from __future__ import annotations

from typing import Any

from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import PositionEncoding
from regard.config import specs
from regard.config.registry import Registry

COMMON = {"self", "dim", "heads", "context_dim", "value_width", "positions", "bias"}
"""Constructor arguments that every mechanism has. All others are its options."""

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
    """Build a mechanism.

    Args:
        spec: Name with options, such as "dot" or "local:window=64", or a Mechanism, which is returned.
        dim, heads, context_dim, value_width, positions, bias: As for `Mechanism`.
        **options: Options of the mechanism.
    """
    if isinstance(spec, Mechanism):
        return spec
    name, spec_options = specs.parse_spec(spec)
    cls = MECHANISMS.find(name)
    typed = specs.convert_options("mechanism", name, cls, {**spec_options, **options}, COMMON)
    return cls(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias, **typed)


MECHANISMS.register_package(__name__, __path__)

__all__ = ["MECHANISMS", "Mechanism", "build"]
