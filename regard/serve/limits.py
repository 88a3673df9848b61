"""How much a server takes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """`queue`: requests that wait for one model; `timeout`: seconds of a request, waiting included; `characters`: of a
    text; `texts`: of one request; `batch`: texts that a model is given at once; `tries`: how often a request is given
    to a process anew because the one before died."""

    queue: int = 64
    timeout: float = 60.0
    characters: int = 20_000
    texts: int = 64
    batch: int = 16
    tries: int = 2

    @property
    def body(self) -> int:
        """Bytes of a request: a character may take six when it is written as JSON."""
        return 6 * self.characters * self.texts + 65_536
