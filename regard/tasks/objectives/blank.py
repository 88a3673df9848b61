"""Every word from the words on both sides of it: P(w_t | w_1 .. w_{t-1}, w_{t+1} .. w_n), the blank language model.

Nothing is hidden: the model itself never looks at w_t when it names it (models/birnn.py), so that every place of a
window is a prediction. On the validation part a sliding window scores each word once, near its middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from torch import nn

from regard.data.corpus import Corpus
from regard.data.vocabulary import Vocabulary
from regard.tasks.objectives import sliding
from regard.tasks.objectives.base import WordBatch, tensor
from regard.tasks.objectives.causal import at_places
from regard.training.task import Term

MODELS = ("birnn",)


@dataclass(frozen=True)
class Config:
    """There is nothing to choose."""


class Blank:
    def __init__(self, config: Config, vocabulary: Vocabulary, *, block: int, stride: int, rows: int, seed: int):
        self.word, self.block, self.stride, self.rows = vocabulary.word, block, stride, rows
        self.kind = vocabulary.kind
        self.length = self.step = block

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> WordBatch:
        ids = corpus.read(starts, self.length)
        places = np.flatnonzero(self.word[ids])
        return WordBatch(tensor(ids), tensor(ids.reshape(-1)[places]), tensor(places))

    def loss(self, model: nn.Module, batch: WordBatch) -> Mapping[str, Term]:
        logits = model(batch.ids, places=batch.places)
        return {"words": Term(F.cross_entropy(logits, batch.targets, reduction="sum"))}

    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Of the missing word: nats, perplexity, accuracy, and the share of words that are not known."""
        parts = sliding.batches(corpus, self.block, self.stride, (self.block - self.stride) // 2, self.rows)
        words = ((ids, ids, scored & self.word[ids]) for _, ids, scored in parts)
        found = sliding.score(at_places(model), sliding.device_of(model), words)
        shares = {"accuracy": found.accuracy, **found.unknown(self.kind)}
        return {"loss": found.loss, "perplexity": found.perplexity, **shares}

    @staticmethod
    def idle(config: Config, model: nn.Module) -> list[nn.Parameter]:
        return []


OBJECTIVE = Blank
