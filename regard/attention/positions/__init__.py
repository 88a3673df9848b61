"""Every kind of position, by name. One file is one kind; a file dropped in here is found by itself."""

from __future__ import annotations

from regard.attention.positions.position_encoding import Positions
from regard.config import specs
from regard.config.discover import classes

POSITIONS: dict[str, type[Positions]] = {cls.name: cls for cls in classes(__name__, __path__, Positions)}

COMMON = {"self", "dim", "heads"}


def build(spec: str | Positions | None, dim: int, heads: int) -> Positions:
    """`"rotary"`, `"learned:length=512"`, a ready object, or None for none."""
    if isinstance(spec, Positions):
        return spec
    name, options = specs.parse(spec or "none")
    cls = specs.find("positions", name, POSITIONS)
    return cls(dim, heads, **specs.typed("positions", name, cls, options, COMMON))


__all__ = ["POSITIONS", "Positions", "build"]
