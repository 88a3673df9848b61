"""Errors that the user can fix. The command line prints the message and exits with code 2; Python code may catch it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Invalid input. The message says what was given, what was expected, and how to fix it."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that is most similar to a misspelled one, or list all names if none is similar.

    >>> did_you_mean("hna", ["han", "transformer"])
    "did you mean 'han'?"
    """
    names = sorted(known)
    matches = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {matches[0]!r}?" if matches else f"known: {', '.join(names)}"


def suggest_choices(name: str, known: Iterable[str]) -> str:
    """Suggest the most similar name, if there is one, and list all names."""
    names = sorted(known)
    suggestion, listing = did_you_mean(name, names), f"known: {', '.join(names)}"
    return suggestion if suggestion == listing else f"{suggestion} {listing}"
