"""Checks of settings that several models and tasks share."""

from __future__ import annotations

from regard.errors import UserError


def check_positive(owner: str, **sizes: int | None) -> None:
    """Raise UserError if a size is less than 1; None stands for a default.

    Args:
        owner: What has the sizes, for the message.
        **sizes: The sizes by name.
    """
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise UserError(f"{owner}: {name} must be at least 1, not {size}")


def check_fraction(name: str, value: float) -> None:
    """Raise UserError unless 0 <= value < 1."""
    if not 0 <= value < 1:
        raise UserError(f"{name} must be at least 0 and less than 1, not {value}")


def check_between_0_and_1(name: str, value: float) -> None:
    """Raise UserError unless 0 < value < 1."""
    if not 0 < value < 1:
        raise UserError(f"{name} must be between 0 and 1, not {value}")


def check_minimum(prefix: str, settings: object, **minimums: float) -> None:
    """Raise UserError if a field of a settings dataclass is less than its minimum.

    Args:
        prefix: Where the dataclass is in the tree of settings, such as "data.".
        settings: The dataclass.
        **minimums: The smallest allowed values by field.
    """
    for name, minimum in minimums.items():
        if getattr(settings, name) < minimum:
            raise UserError(f"{prefix}{name} must be {minimum} or more, not {getattr(settings, name)}")
