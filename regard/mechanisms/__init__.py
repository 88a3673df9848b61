"""Every mechanism, by name. One file is one mechanism; a file dropped in here is found by itself."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from regard import named
from regard.errors import UserError
from regard.mechanisms.base import Mechanism
from regard.positions.base import Positions

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
    name, given = named.parse(spec)
    cls = named.find("mechanism", name, MECHANISMS)
    own = named.typed("mechanism", name, cls, {**given, **options}, COMMON)
    return cls(dim, heads, memory_dim=memory_dim, value_width=value_width, positions=positions, bias=bias, **own)


def _discover() -> None:
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base"):
        for _, cls in inspect.getmembers(importlib.import_module(f"{__name__}.{module}"), inspect.isclass):
            if issubclass(cls, Mechanism) and not inspect.isabstract(cls) and "name" in vars(cls):
                register(cls)


_discover()

__all__ = ["MECHANISMS", "Mechanism", "build", "register"]
