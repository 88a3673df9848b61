"""Every kind of position, by name. One file is one kind; a file dropped in here is found by itself."""

from __future__ import annotations

from regard import named
from regard.discover import classes
from regard.positions.base import Positions

POSITIONS: dict[str, type[Positions]] = {cls.name: cls for cls in classes(__name__, __path__, Positions)}

COMMON = {"self", "dim", "heads"}


def build(spec: str | Positions | None, dim: int, heads: int) -> Positions:
    """`"rotary"`, `"learned:length=512"`, a ready object, or None for none."""
    if isinstance(spec, Positions):
        return spec
    name, options = named.parse(spec or "none")
    cls = named.find("positions", name, POSITIONS)
    return cls(dim, heads, **named.typed("positions", name, cls, options, COMMON))


__all__ = ["POSITIONS", "Positions", "build"]
