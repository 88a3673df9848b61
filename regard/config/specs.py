"""`name:key=value,key=value` to an object: how mechanisms and positions are written on a command line and in a
config."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from regard.config.settings import convert
from regard.errors import UserError, suggest_choices

T = TypeVar("T")


def parse(spec: str) -> tuple[str, dict[str, str]]:
    """`"local:window=64"` -> `("local", {"window": "64"})`."""
    name, _, rest = spec.partition(":")
    options = {}
    for part in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"{spec!r}: wanted name:key=value,key=value, and {part!r} has no '='")
        options[key.strip()] = value.strip()
    return name.strip(), options


def find(kind: str, name: str, known: Mapping[str, T]) -> T:
    """The one of that name, or an error that names the nearest and all that are known."""
    if name not in known:
        raise UserError(f"unknown {kind} {name!r}; {suggest_choices(name, known)}")
    return known[name]


def own_options(cls: type, common: set[str]) -> dict[str, inspect.Parameter]:
    """The keywords of a class's constructor that are its own, not the ones that every one of its kind takes."""
    parameters = inspect.signature(cls).parameters
    return {n: p for n, p in parameters.items() if n not in common and p.kind is p.KEYWORD_ONLY}


def typed(kind: str, name: str, cls: type, options: Mapping[str, Any], common: set[str]) -> dict[str, Any]:
    """Options converted to the types that the constructor declares; an unknown one is an error."""
    own, hints = own_options(cls, common), get_type_hints(cls.__init__)
    for key in options:
        if key not in own:
            what = suggest_choices(key, own) if own else "it takes none"
            raise UserError(f"{kind} {name!r} has no option {key!r}; {what}")
    return {key: convert(hints.get(key, str), value, f"{kind} {name}:{key}") for key, value in options.items()}
