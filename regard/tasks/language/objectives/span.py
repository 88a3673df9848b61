"""A stretch that was taken out, named after the rest: `prefix ⁇ suffix ⁇ span [EOS]`, ⁇ being [MASK], read causally
(the span corruption of Raffel et al. 2020, section 3.1.4, with one span, in the form of Donahue et al. 2020, "Enabling
language models to fill in the blanks").

The stretch has 1 to half of the window's tokens, a quarter in the mean, and stands anywhere in it. The loss is on the
span and its end; with `loss=all` on the prefix and the suffix too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from torch import nn

from regard.data import counter_rng
from regard.data.corpus import Corpus
from regard.data.tokenizer import EOS, MASK
from regard.data.vocabulary import Vocabulary
from regard.errors import UserError
from regard.tasks.language.objectives import sliding_window
from regard.tasks.language.objectives.causal import at_places
from regard.tasks.language.objectives.token_objective import TokenObjective, WordBatch, tensor
from regard.training.objective import LossTerm

MARKS = 3
_LONG, _WHERE = 21, 22
_VALID = 2**32 - 1  # an epoch that training never reaches


@dataclass(frozen=True)
class SpanConfig:
    loss: str = "span"

    def __post_init__(self) -> None:
        if self.loss not in ("span", "all"):
            raise UserError(f"corruption.loss is 'span' or 'all', and was given {self.loss!r}")


class SpanObjective(TokenObjective):
    config_class = SpanConfig
    models = ("gpt", "ngram-gpt", "cnn")

    def __init__(self, config: SpanConfig, vocabulary: Vocabulary, *, block: int, stride: int, rows: int, seed: int):
        self.config, self.rows, self.seed = config, rows, seed
        self.length = self.step = block + 1 - MARKS
        if self.length < 2:
            raise UserError(f"a span wants data.block_size of {MARKS + 1} or more, and was given {block}")

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> WordBatch:
        ids, inside = corrupt(corpus.read(starts, self.length), self.seed, epoch, items)
        wanted = ids[:, 1:]
        if self.config.loss == "all" and epoch != _VALID:
            return WordBatch(tensor(ids[:, :-1]), tensor(wanted.reshape(-1)), tensor(np.arange(wanted.size)))
        places = np.flatnonzero(inside[:, 1:])
        return WordBatch(tensor(ids[:, :-1]), tensor(wanted.reshape(-1)[places]), tensor(places))

    def loss(self, model: nn.Module, batch: WordBatch) -> Mapping[str, LossTerm]:
        logits = model(batch.ids, logits_at=batch.places)
        return {"words": LossTerm(F.cross_entropy(logits, batch.targets, reduction="sum"))}

    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Of the words of the spans: nats, perplexity, accuracy. The spans hang on the text's place alone."""
        count = corpus.num_tokens // self.length

        def rows():
            for i in range(0, count, self.rows):
                items = np.arange(i, min(i + self.rows, count))
                ids, inside = corrupt(corpus.read(items * self.length, self.length), self.seed, _VALID, items)
                yield ids[:, :-1], ids[:, 1:], inside[:, 1:]

        found = sliding_window.score(at_places(model), sliding_window.device_of(model), rows())
        return {"loss": found.loss, "perplexity": found.perplexity, "accuracy": found.accuracy}


def corrupt(text: np.ndarray, seed: int, epoch: int, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(b, n) to `prefix [MASK] suffix [MASK] span [EOS]`, (b, n + 3), and where the span and its end stand."""
    n = text.shape[1]
    length = 1 + counter_rng.scale_to_int(max(n // 2, 1), counter_rng.uniform(seed, epoch, _LONG, items, 1))  # (b, 1)
    start = counter_rng.scale_to_int(n - length + 1, counter_rng.uniform(seed, epoch, _WHERE, items, 1))
    place = np.arange(n + MARKS)
    second = n - length + 1  # where the second mask stands
    source = np.where(place < start, place, np.where(place < second, place - 1 + length, start + place - second - 1))
    ids = np.take_along_axis(text, np.clip(source, 0, n - 1), 1)
    ids[(place == start) | (place == second)] = MASK
    ids[:, -1] = EOS
    return ids, place > second
