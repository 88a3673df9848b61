"""The limits of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    Args:
        queue: Requests that may wait for a model.
        timeout: Seconds for a request, including its wait.
        characters: Length of a text.
        texts: Texts in a request.
        batch: Texts in a batch of the model.
        max_attempts: How often a request is tried if the process dies.
    """

    queue: int = 64
    timeout: float = 60.0
    characters: int = 20_000
    texts: int = 64
    batch: int = 16
    max_attempts: int = 2

    @property
    def max_body(self) -> int:
        """Bytes of a request. A character may take six in JSON."""
        return 6 * self.characters * self.texts + 65_536
