"""Protocols of models that use the training data as a whole, or the vocabulary, before the first training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class UsesTrainingData(Protocol):
    """A model that computes statistics of the training data, such as n-gram counts."""

    def fit_training_data(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        """Compute the statistics. Called at each start, also when a run is resumed; it must be deterministic.

        Args:
            ids: Token ids of all documents, one after the other, (tokens,).
            starts: Index of each document's first token, and the number of tokens, (documents + 1,).
            labels: Labels of each document as zeros and ones, (documents, classes).
        """
        ...


@runtime_checkable
class ProvidesTrainingData(Protocol):
    """An objective that has such training data."""

    def training_data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The arguments of `fit_training_data`."""
        ...


@runtime_checkable
class UsesVocabulary(Protocol):
    """A model that needs to know how each token is written."""

    def set_vocabulary(self, words: Sequence[str]) -> None:
        """Set the spelling of each token.

        Called at each start; the result is saved with the weights.

        Args:
            words: The tokens in the order of their ids; "" for special tokens.
        """
        ...
