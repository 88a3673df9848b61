"""Models that look at the training part as a whole, or at the vocabulary, before the first step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class UsesTrainingData(Protocol):
    def fit_training_data(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        """Flat ids, where each document starts (and the last ends), and which labels each has (documents, classes) as
        zeros and ones. Called at each start, also when a run is resumed; the same data give the same."""
        ...


@runtime_checkable
class ProvidesTrainingData(Protocol):
    """A task that has such a training part."""

    def training_data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What `see` is given."""
        ...


@runtime_checkable
class UsesVocabulary(Protocol):
    def set_vocabulary(self, words: Sequence[str]) -> None:
        """How each word of the vocabulary is written, in the order of their ids; "" for special tokens. Called at each
        start, and kept with the weights."""
        ...
