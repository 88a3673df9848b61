"""Sizes that a user chooses must be at least one, and shares less than all."""

from __future__ import annotations

from regard.errors import UserError


def positive(what: str, **sizes: int | None) -> None:
    """An error that names the size which is not at least one; None is a size left to its default."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise UserError(f"{what}: {name} must be at least 1, and was given {size}")


def share(name: str, value: float) -> None:
    """An error where a share is not from 0 to below 1."""
    if not 0 <= value < 1:
        raise UserError(f"{name} is a share from 0 to below 1, and was given {value}")
