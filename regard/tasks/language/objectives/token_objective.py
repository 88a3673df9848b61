"""The interface of the objectives of language models, and their batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.training.objective import LossTerm

VALIDATION_EPOCH = 2**32 - 1
"""The epoch whose random numbers corrupt the validation part. Training never reaches it."""


@dataclass(frozen=True)
class TokenBatch:
    """A batch of windows.

    Attributes:
        ids: Token ids, (b, n).
        targets: Tokens to predict, (k,).
        logits_at: Flat indices of the positions where they are predicted, (k,); None for every position.
        segments: With pairs of sentences: 0 for the first, 1 for the second, (b, n).
        is_next: With pairs of sentences: whether the second follows the first, (b,).
        negatives: Other tokens that a target is distinguished from, if these are not all tokens.
    """

    ids: Tensor
    targets: Tensor
    logits_at: Tensor | None = None
    segments: Tensor | None = None
    is_next: Tensor | None = None
    negatives: Tensor | None = None

    @property
    def counts(self) -> dict[str, float]:
        counts = {"words": float(self.targets.numel())}
        return counts if self.is_next is None else {**counts, "next": float(len(self.is_next))}

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
    def __init__(
        self, config: Any, vocabulary: TokenProperties, *, block_size: int, stride: int, batch_size: int, seed: int
    ):
        """Args:
        config: An instance of `config_class`.
        vocabulary: The vocabulary.
        block: Tokens of a window.
        stride: How far a sliding window moves in evaluation.
        rows: Windows of a batch in evaluation.
        seed: Seed of the corruption.
        """

    @abstractmethod
    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> TokenBatch:
        """The items that start at token `starts` and have the numbers `items` in this epoch."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: TokenBatch) -> Mapping[str, LossTerm]:
        """The loss terms of a batch, each a sum."""

    @abstractmethod
    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """The metrics on a text."""

    @staticmethod
    def unused_parameters(config: Any, model: nn.Module) -> list[nn.Parameter]:
        """Parameters that this objective does not train."""
        return []


def to_tensor(array: np.ndarray) -> Tensor:
    """An int64 tensor."""
    return torch.from_numpy(np.ascontiguousarray(array, np.int64))
