"""Sizes that a user chooses must be at least one."""

from __future__ import annotations

from regard.errors import UserError


def positive(what: str, **sizes: int | None) -> None:
    """An error that names the size which is not at least one; None is a size left to its default."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise UserError(f"{what}: {name} must be at least 1, and was given {size}")
