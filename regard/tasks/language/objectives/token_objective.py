"""What the language task asks of an objective, and the batch that all of them make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.corpus import Corpus
from regard.training.objective import Term


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


class Objective(Protocol):
    length: int
    """Tokens of the corpus that one item takes."""
    step: int
    """From one item to the next: less than `length` where items share tokens."""

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> WordBatch:
        """The items that begin at `starts`, which have the numbers `items` in this epoch."""
        ...

    def loss(self, model: nn.Module, batch: WordBatch) -> Mapping[str, Term]: ...

    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]: ...

    @staticmethod
    def idle(config: Any, model: nn.Module) -> list[nn.Parameter]:
        """Parameters that this objective does not train."""
        ...


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, np.int64))
