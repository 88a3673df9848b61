"""What the user can mend. The command line prints the message and leaves with code 2; Python code may catch it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake in what was given: the message says what was given, what was expected and how to mend it."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the nearest known one, or all of them where none is near."""
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def choices(name: str, known: Iterable[str]) -> str:
    """The nearest known name, where one is near, and all that are known."""
    known = sorted(known)
    hint, every = nearest(name, known), f"known: {', '.join(known)}"
    return hint if hint == every else f"{hint} {every}"
