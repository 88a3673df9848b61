"""Predict a span that was removed: `prefix [MASK] suffix [MASK] span [EOS]`, read causally.

This is the span corruption of Raffel et al. 2020, section 3.1.4, with one span, in the form of Donahue et al. 2020,
"Enabling language models to fill in the blanks". The span has between 1 token and half of the window's tokens (a
quarter on average) and is at a random position. The loss is on the span and its end; with `loss=all` also on the prefix
and the suffix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from torch import nn

from regard.data import counter_rng
from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.data.tokenizer import EOS, MASK
from regard.errors import UserError
from regard.tasks.language.objectives import sliding_window
from regard.tasks.language.objectives.token_objective import VALIDATION_EPOCH, TokenBatch, TokenObjective, to_tensor
from regard.training.objective import LossTerm

NUM_MARKS = 3  # special tokens that are added to a window
_LENGTH, _START = 21, 22  # random streams


@dataclass(frozen=True)
class SpanConfig:
    """`loss`: "span", or "all" for a loss on the prefix and the suffix too."""

    loss: str = "span"

    def __post_init__(self) -> None:
        if self.loss not in ("span", "all"):
            raise UserError(f"corruption.loss must be 'span' or 'all', not {self.loss!r}")


class SpanObjective(TokenObjective):
    """Prediction of a removed span."""

    config_class = SpanConfig
    models = ("gpt", "ngram-gpt", "cnn")

    def __init__(
        self,
        config: SpanConfig,
        vocabulary: TokenProperties,
        *,
        block_size: int,
        stride: int,
        batch_size: int,
        seed: int,
    ):
        self.config, self.batch_size, self.seed = config, batch_size, seed
        self.length = self.step = block_size + 1 - NUM_MARKS
        if self.length < 2:
            raise UserError(f"the objective span needs data.block_size of {NUM_MARKS + 1} or more, not {block_size}")

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> TokenBatch:
        ids, in_span = move_span(corpus.read(starts, self.length), self.seed, epoch, items)
        next_ids = ids[:, 1:]
        everywhere = self.config.loss == "all" and epoch != VALIDATION_EPOCH
        logits_at = np.arange(next_ids.size) if everywhere else np.flatnonzero(in_span[:, 1:])
        return TokenBatch(to_tensor(ids[:, :-1]), to_tensor(next_ids.reshape(-1)[logits_at]), to_tensor(logits_at))

    def loss(self, model: nn.Module, batch: TokenBatch) -> Mapping[str, LossTerm]:
        logits = model(batch.ids, logits_at=batch.logits_at)
        return {"words": LossTerm(F.cross_entropy(logits, batch.targets, reduction="sum"))}

    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Loss per token of the spans, perplexity and accuracy. The spans depend on the position in the text only."""
        count = corpus.num_tokens // self.length

        def read_windows() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
            for i in range(0, count, self.batch_size):
                items = np.arange(i, min(i + self.batch_size, count))
                text = corpus.read(items * self.length, self.length)
                ids, in_span = move_span(text, self.seed, VALIDATION_EPOCH, items)
                yield ids[:, :-1], ids[:, 1:], in_span[:, 1:]

        totals = sliding_window.score_windows(model, read_windows())
        return {"loss": totals.loss, "perplexity": totals.perplexity, "accuracy": totals.accuracy}


def move_span(ids: np.ndarray, seed: int, epoch: int, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move a random span of each row to its end.

    Args:
        ids: Token ids, (b, n).
        seed, epoch, items: What the random numbers depend on.

    Returns:
        `prefix [MASK] suffix [MASK] span [EOS]`, (b, n + 3), and True for the span and its end, (b, n + 3).
    """
    n = ids.shape[1]
    length = 1 + counter_rng.scale_to_int(max(n // 2, 1), counter_rng.uniform(seed, epoch, _LENGTH, items, 1))  # (b, 1)
    start = counter_rng.scale_to_int(n - length + 1, counter_rng.uniform(seed, epoch, _START, items, 1))
    position = np.arange(n + NUM_MARKS)
    second_mask = n - length + 1
    in_suffix = position < second_mask
    source = np.where(
        position < start, position, np.where(in_suffix, position - 1 + length, start + position - second_mask - 1)
    )
    moved = np.take_along_axis(ids, np.clip(source, 0, n - 1), 1)
    moved[(position == start) | (position == second_mask)] = MASK
    moved[:, -1] = EOS
    return moved, position > second_mask
