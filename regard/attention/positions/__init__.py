"""Every kind of position, by name. One file is one kind; a file dropped in here is found by itself."""

from __future__ import annotations

from regard.attention.positions.position_encoding import PositionEncoding
from regard.config import specs
from regard.config.registry import Registry

POSITIONS: Registry[type[PositionEncoding]] = Registry("positions", PositionEncoding)
POSITIONS.register_package(__name__, __path__)

COMMON = {"self", "dim", "heads"}


def build(spec: str | PositionEncoding | None, dim: int, heads: int) -> PositionEncoding:
    """`"rotary"`, `"learned:length=512"`, a ready object, or None for none."""
    if isinstance(spec, PositionEncoding):
        return spec
    name, options = specs.parse(spec or "none")
    cls = POSITIONS.find(name)
    return cls(dim, heads, **specs.typed("positions", name, cls, options, COMMON))


__all__ = ["POSITIONS", "PositionEncoding", "build"]
