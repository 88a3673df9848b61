"""Models that look at the training part as a whole before the first step."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Sees(Protocol):
    def see(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        """Flat ids, where each document starts (and the last ends), and which labels each has (documents, classes) as
        zeros and ones. Called at each start, also when a run is resumed; the same data give the same."""
        ...


@runtime_checkable
class Shows(Protocol):
    """A task that has such a training part."""

    def seen(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What `see` is given."""
        ...
