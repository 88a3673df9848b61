"""Spec strings, `name:key=value,key=value`: how mechanisms and positions are written in settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from regard.config.settings import convert_value
from regard.errors import UserError, suggest_choices

T = TypeVar("T")


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Parse a spec string into its name and its options.

    >>> parse_spec("local:window=64")
    ('local', {'window': '64'})
    """
    name, _, rest = spec.partition(":")
    options = {}
    for part in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"{spec!r} must be name:key=value,key=value, but {part!r} has no '='")
        options[key.strip()] = value.strip()
    return name.strip(), options


def find_choice(kind: str, name: str, choices: Mapping[str, T]) -> T:
    """Look up a name. Raises UserError with the nearest name and all known names if it is unknown.

    Args:
        kind: What is looked up, for the message, such as "tokenizer".
        name: The name.
        choices: What can be found, by name.
    """
    if name not in choices:
        raise UserError(f"unknown {kind} {name!r}; {suggest_choices(name, choices)}")
    return choices[name]


def option_parameters(cls: type, common: set[str]) -> dict[str, inspect.Parameter]:
    """Keyword options of a constructor, with those that it passes on to its base classes as `**options`.

    Args:
        cls: The class.
        common: Options that all classes of its kind have; they are left out.
    """
    options: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        init = vars(base)["__init__"]
        parameters, hints = inspect.signature(init).parameters.values(), get_type_hints(init)
        for p in parameters:
            if p.kind is p.KEYWORD_ONLY and p.name not in common:
                options.setdefault(p.name, p.replace(annotation=hints.get(p.name, str)))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return options


def convert_options(kind: str, name: str, cls: type, options: Mapping[str, Any], common: set[str]) -> dict[str, Any]:
    """Convert the options of a spec to the types of the constructor's parameters. An unknown option is an error.

    Args:
        kind: What the class is, for the message, such as "mechanism".
        name: Its name.
        cls: The class.
        options: The options, as text or as values.
        common: Options that all classes of its kind have; they cannot be set in a spec.
    """
    parameters = option_parameters(cls, common)
    for key in options:
        if key not in parameters:
            hint = suggest_choices(key, parameters) if parameters else "it has no options"
            raise UserError(f"{kind} {name!r} has no option {key!r}; {hint}")
    return {
        key: convert_value(parameters[key].annotation, value, f"{kind} {name}:{key}") for key, value in options.items()
    }
