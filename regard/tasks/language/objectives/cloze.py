"""Every word from the words on both sides of it: P(w_t | w_1 .. w_{t-1}, w_{t+1} .. w_n), the blank language model.

Nothing is hidden: the model itself never looks at w_t when it names it (models/birnn.py), so that every place of a
window is a prediction. On the validation part a sliding window scores each word once, near its middle.

With `sampled` a word is told from so many others instead of from all, which is what takes the time where a vocabulary
is large: the most frequent words, half of the number, and as many of the rest, drawn anew for each batch. What was
drawn stands for what was not (Bengio & Senécal 2003, Quick Training of Probabilistic Neural Nets by Importance
Sampling; Jean et al. 2015, section 3):

    loss = -log( e^{s_w} / (e^{s_w} + Σ_{v ∈ S, v ≠ w} e^{s_v} / P(v ∈ S)) )        P = 1, or drawn / (all - frequent)

It is an estimate, and hangs on what stands in a batch together; validation always counts all words. Words must be
numbered by how frequent they are, as those of the tokenizer `words` are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.data.corpus import Corpus
from regard.data.vocabulary import Vocabulary
from regard.errors import UserError
from regard.tasks.language.objectives import sliding_window
from regard.tasks.language.objectives.causal import at_places
from regard.tasks.language.objectives.token_objective import TokenObjective, WordBatch, tensor
from regard.training.objective import LossTerm

_DRAW = 11
"""What the chances are for."""


@dataclass(frozen=True)
class ClozeConfig:
    """`sampled`: how many other words each is told from in training; 0 is all."""

    sampled: int = 0

    def __post_init__(self) -> None:
        if self.sampled < 0:
            raise UserError(f"corruption.sampled is a number of words, 0 for all, and was given {self.sampled}")


class ClozeObjective(TokenObjective):
    config_class = ClozeConfig
    models = ("birnn",)
    uses_sliding_window = True

    def __init__(self, config: ClozeConfig, vocabulary: Vocabulary, *, block: int, stride: int, rows: int, seed: int):
        self.word, self.block, self.stride, self.rows = vocabulary.is_word, block, stride, rows
        self.kind, self.seed = vocabulary.kind, seed
        self.sampled, self.size = config.sampled if config.sampled < vocabulary.vocab_size else 0, vocabulary.vocab_size
        self.length = self.step = block

    @property
    def frequent(self) -> int:
        """Words that every other is told from."""
        return self.sampled // 2

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> WordBatch:
        ids = corpus.read(starts, self.length)
        places = np.flatnonzero(self.word[ids])
        others = None
        if self.sampled:
            random = np.random.default_rng([self.seed, epoch, _DRAW, *items[:2].tolist(), len(items)])
            rest = random.choice(self.size - self.frequent, self.sampled - self.frequent, replace=False)
            others = tensor(np.concatenate((np.arange(self.frequent), self.frequent + np.sort(rest))))
        return WordBatch(tensor(ids), tensor(ids.reshape(-1)[places]), tensor(places), others=others)

    def loss(self, model: nn.Module, batch: WordBatch) -> Mapping[str, LossTerm]:
        if batch.others is not None:
            drawn = (self.sampled - self.frequent) / (self.size - self.frequent)
            weight = torch.where(batch.others < self.frequent, 0.0, -math.log(drawn))
            nats = model(batch.ids, logits_at=batch.places, targets=batch.targets, negatives=batch.others, log_weights=weight)
            return {"words": LossTerm(nats.sum())}
        logits = model(batch.ids, logits_at=batch.places)
        return {"words": LossTerm(F.cross_entropy(logits, batch.targets, reduction="sum"))}

    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Of the missing word: nats, perplexity, accuracy, and the share of words that are not known."""
        parts = sliding_window.batches(corpus, self.block, self.stride, (self.block - self.stride) // 2, self.rows)
        words = ((ids, ids, scored & self.word[ids]) for _, ids, scored in parts)
        found = sliding_window.score(at_places(model), sliding_window.device_of(model), words)
        shares = {"accuracy": found.accuracy, **found.unknown(self.kind)}
        return {"loss": found.loss, "perplexity": found.perplexity, **shares}
