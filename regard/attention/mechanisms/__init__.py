"""Every mechanism, by name. One file is one mechanism; a file dropped in here is found by itself."""

from __future__ import annotations

from typing import Any

from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import Positions
from regard.config import specs
from regard.config.discover import classes
from regard.errors import UserError

COMMON = {"self", "dim", "heads", "memory_dim", "value_width", "positions", "bias"}

MECHANISMS: dict[str, type[Mechanism]] = {}


def register(cls: type[Mechanism]) -> type[Mechanism]:
    """Make a mechanism buildable by its name; the name must be free."""
    if MECHANISMS.get(cls.name, cls) is not cls:
        raise UserError(f"there is a mechanism {cls.name!r} already; give {cls.__name__} another name")
    MECHANISMS[cls.name] = cls
    return cls


def build(
    spec: str | Mechanism,
    dim: int,
    heads: int,
    *,
    memory_dim: int | None = None,
    value_width: int | None = None,
    positions: Positions | None = None,
    bias: bool = True,
    **options: Any,
) -> Mechanism:
    """`"dot"`, `"local:window=64"`, or a ready object."""
    if isinstance(spec, Mechanism):
        return spec
    name, given = specs.parse(spec)
    cls = specs.find("mechanism", name, MECHANISMS)
    own = specs.typed("mechanism", name, cls, {**given, **options}, COMMON)
    return cls(dim, heads, memory_dim=memory_dim, value_width=value_width, positions=positions, bias=bias, **own)


for _cls in classes(__name__, __path__, Mechanism):
    register(_cls)

__all__ = ["MECHANISMS", "Mechanism", "build", "register"]
