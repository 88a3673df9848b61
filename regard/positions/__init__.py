"""Every kind of position, by name. One file is one kind."""

from __future__ import annotations

from regard import named
from regard.positions.base import Positions
from regard.positions.none import NoPositions
from regard.positions.sinusoidal import Sinusoidal

POSITIONS: dict[str, type[Positions]] = {cls.name: cls for cls in (NoPositions, Sinusoidal)}

COMMON = {"self", "dim", "heads"}


def build(spec: str | Positions | None, dim: int, heads: int) -> Positions:
    """`"rotary"`, `"learned:length=512"`, a ready object, or None for none."""
    if isinstance(spec, Positions):
        return spec
    name, options = named.parse(spec or "none")
    cls = named.find("positions", name, POSITIONS)
    return cls(dim, heads, **named.typed("positions", name, cls, options, COMMON))


__all__ = ["POSITIONS", "Positions", "build"]
