"""Position encodings by name. Each file defines one encoding; new files in this folder are registered automatically."""

from __future__ import annotations

from regard.attention.positions.position_encoding import PositionEncoding
from regard.config import specs
from regard.config.registry import Registry

POSITIONS: Registry[type[PositionEncoding]] = Registry("positions", PositionEncoding)
POSITIONS.register_package(__name__, __path__)

COMMON = {"self", "dim", "heads"}
"""Constructor arguments that every encoding has. All others are its options."""


def build(spec: str | PositionEncoding | None, dim: int, heads: int) -> PositionEncoding:
    """Build a position encoding.

    Args:
        spec: Name with options, such as "rotary" or "learned:length=512", a PositionEncoding, or None for none.
        dim: Width of the model.
        heads: Number of heads.
    """
    if isinstance(spec, PositionEncoding):
        return spec
    name, options = specs.parse_spec(spec or "none")
    cls = POSITIONS.find(name)
    return cls(dim, heads, **specs.convert_options("positions", name, cls, options, COMMON))


__all__ = ["POSITIONS", "PositionEncoding", "build"]
