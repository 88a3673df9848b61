"""Train a language model on windows of one stream of tokens. The order of the windows depends on (seed, epoch) only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from torch import nn

from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.errors import UserError
from regard.tasks.language.objectives import OBJECTIVES, SLIDING
from regard.tasks.language.objectives.token_objective import TokenBatch, TokenObjective
from regard.tasks.language.settings import LanguageSettings
from regard.training.objective import LossTerm

MAX_LOGITS = 1 << 25  # of one batch in evaluation


class LanguageObjective:
    """The objective of the training loop.

    Args:
        train: The training text.
        valid: The validation text.
        token_objective: What is predicted in each window.
        block_size: Tokens of a window.
        batch_tokens: Tokens of a batch.
        seed: Seed of the order of the windows.
    """

    monitor = "loss"
    mode: Literal["max", "min"] = "min"

    def __init__(
        self,
        train: Corpus,
        valid: Corpus,
        token_objective: TokenObjective,
        *,
        block_size: int,
        batch_tokens: int,
        seed: int,
    ):
        self.train, self.valid, self.token_objective, self.seed = train, valid, token_objective, seed
        self.batch_size = max(1, batch_tokens // block_size)
        for part, corpus in (("training", train), ("validation", valid)):
            if corpus.num_tokens < token_objective.length:
                raise UserError(
                    f"the {part} part has {corpus.num_tokens:,} tokens, but one window of "
                    f"data.block_size={block_size} needs {token_objective.length:,}; use more text, or "
                    f"--block-size {max(corpus.num_tokens // 4, 1)}"
                )

    def offset(self, epoch: int) -> int:
        """Where the first window of an epoch starts. Each epoch starts at another token."""
        free = self.train.num_tokens - self.token_objective.length
        return int(np.random.default_rng((self.seed, epoch)).integers(0, min(self.token_objective.step, free + 1)))

    def plan(self, epoch: int) -> list[np.ndarray]:
        length, step = self.token_objective.length, self.token_objective.step
        count = (self.train.num_tokens - self.offset(epoch) - length) // step + 1
        order = np.random.default_rng((self.seed, epoch, 1)).permutation(count)
        return [order[i : i + self.batch_size] for i in range(0, count, self.batch_size)]

    def batch(self, indices: np.ndarray, epoch: int) -> TokenBatch:
        starts = self.offset(epoch) + indices * self.token_objective.step
        return self.token_objective.batch(self.train, starts, indices, epoch)

    def loss(self, model: nn.Module, batch: TokenBatch) -> Mapping[str, LossTerm]:
        return self.token_objective.loss(model, batch)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self.token_objective.evaluate(model, self.valid)


def build_token_objective(
    settings: LanguageSettings, vocabulary: TokenProperties, stride: int | None = None
) -> TokenObjective:
    """Build the objective that the settings name.

    Args:
        settings: The settings of a run.
        vocabulary: Its vocabulary.
        stride: Replaces the stride of the settings.
    """
    data = settings.data
    return OBJECTIVES[settings.objective](
        settings.corruption,
        vocabulary,
        block_size=data.block_size,
        stride=stride or data.stride or data.block_size,
        batch_size=max(1, min(2 * data.batch_tokens, MAX_LOGITS // vocabulary.vocab_size) // data.block_size),
        seed=settings.seed,
    )


def check_stride(objective: str, stride: int | None) -> None:
    """Raise UserError if there is a stride and the objective does not use it."""
    if stride is not None and objective not in SLIDING:
        raise UserError(
            f"--stride {stride} has no effect for the objective {objective!r}, which evaluates each window once; leave "
            f"it out (it is for {' and '.join(SLIDING)})"
        )
