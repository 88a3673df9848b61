"""What the language task asks of an objective, and the batch that all of them make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.corpus import Corpus
from regard.data.vocabulary import Vocabulary
from regard.training.objective import LossTerm


@dataclass(frozen=True)
class WordBatch:
    """ids (b, n); the words (k,) that are wanted at `places`, numbers of places counted through all rows (None: at
    every one). With pairs of sentences also the segments (b, n), and whether the second follows the first (b,).
    `others` are words that they are told from, where these are not all."""

    ids: Tensor
    targets: Tensor
    places: Tensor | None = None
    segments: Tensor | None = None
    follows: Tensor | None = None
    others: Tensor | None = None

    @property
    def counts(self) -> dict[str, float]:
        words = {"words": float(self.targets.numel())}
        return words if self.follows is None else {**words, "next": float(len(self.follows))}

    @property
    def tokens(self) -> int:
        return self.ids.numel()


class TokenObjective(ABC):
    """What a language model predicts from what.

    Attributes:
        config_class: The dataclass of the objective's settings, `corruption`.
        models: Names of the built-in models that support it.
        uses_sliding_window: Whether evaluation moves a window over the text and scores each token once. Otherwise each
            window is evaluated once, with some of its tokens hidden.
        length: How many tokens of the corpus one item takes.
        step: Distance between items; less than `length` if items overlap.
    """

    config_class: ClassVar[type]
    models: ClassVar[tuple[str, ...]]
    uses_sliding_window: ClassVar[bool] = False
    length: int
    step: int

    @abstractmethod
    def __init__(self, config: Any, vocabulary: Vocabulary, *, block: int, stride: int, rows: int, seed: int):
        """Args:
        config: An instance of `config_class`.
        vocabulary: The vocabulary.
        block: Tokens of a window.
        stride: How far a sliding window moves in evaluation.
        rows: Windows of a batch in evaluation.
        seed: Seed of the corruption.
        """

    @abstractmethod
    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> WordBatch:
        """The items that start at token `starts` and have the numbers `items` in this epoch."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: WordBatch) -> Mapping[str, LossTerm]:
        """The loss terms of a batch, each a sum."""

    @abstractmethod
    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """The metrics on a text."""

    @staticmethod
    def unused_parameters(config: Any, model: nn.Module) -> list[nn.Parameter]:
        """Parameters that this objective does not train."""
        return []


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, np.int64))
