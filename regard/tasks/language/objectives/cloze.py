"""Predict every token from the tokens on both sides: P(w_t | w_1 .. w_{t-1}, w_{t+1} .. w_n), the objective "blank".

Nothing is masked: the model itself does not use w_t to predict it (models/birnn.py), so that every position of a window
is a prediction. In evaluation a sliding window scores each token once, near its middle.

With `sampled` a token is distinguished from that many others instead of from the whole vocabulary, which is faster if
the vocabulary is large: half of them are the most frequent tokens, the others are drawn for each batch and weighted by
importance (Bengio & Senécal 2003, Quick Training of Probabilistic Neural Nets by Importance Sampling; Jean et al. 2015,
section 3):

    loss = -log( e^{s_w} / (e^{s_w} + Σ_{v ∈ S, v ≠ w} e^{s_v} / P(v ∈ S)) )     P = 1, or drawn / (all - frequent)

This is an estimate that depends on the batch; evaluation always uses the whole vocabulary. Token ids must be ordered by
frequency, as those of the tokenizer `words` are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.config.validation import check_minimum
from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.tasks.language.objectives import sliding_window
from regard.tasks.language.objectives.token_objective import TokenBatch, TokenObjective, to_tensor
from regard.training.objective import LossTerm

_NEGATIVES = 11  # random stream


@dataclass(frozen=True)
class ClozeConfig:
    """`sampled`: how many other tokens each one is distinguished from in training; 0 for all."""

    sampled: int = 0

    def __post_init__(self) -> None:
        check_minimum("corruption.", self, sampled=0)


class ClozeObjective(TokenObjective):
    """Prediction of every token from both sides."""

    config_class = ClozeConfig
    models = ("birnn",)
    uses_sliding_window = True

    def __init__(
        self,
        config: ClozeConfig,
        vocabulary: TokenProperties,
        *,
        block_size: int,
        stride: int,
        batch_size: int,
        seed: int,
    ):
        self.vocabulary, self.block_size, self.stride, self.batch_size = vocabulary, block_size, stride, batch_size
        self.num_sampled = config.sampled if config.sampled < vocabulary.vocab_size else 0
        self.num_frequent = self.num_sampled // 2
        self.seed = seed
        self.length = self.step = block_size

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> TokenBatch:
        ids = corpus.read(starts, self.length)
        logits_at = np.flatnonzero(self.vocabulary.is_word[ids])
        negatives = None
        if self.num_sampled:
            rng = np.random.default_rng([self.seed, epoch, _NEGATIVES, *items[:2].tolist(), len(items)])
            num_rare = self.vocabulary.vocab_size - self.num_frequent
            rare = rng.choice(num_rare, self.num_sampled - self.num_frequent, replace=False)
            negatives = to_tensor(np.concatenate((np.arange(self.num_frequent), self.num_frequent + np.sort(rare))))
        targets = to_tensor(ids.reshape(-1)[logits_at])
        return TokenBatch(to_tensor(ids), targets, to_tensor(logits_at), negatives=negatives)

    def loss(self, model: nn.Module, batch: TokenBatch) -> Mapping[str, LossTerm]:
        if batch.negatives is None:
            logits = model(batch.ids, logits_at=batch.logits_at)
            return {"words": LossTerm(F.cross_entropy(logits, batch.targets, reduction="sum"))}
        num_rare = self.vocabulary.vocab_size - self.num_frequent
        probability = (self.num_sampled - self.num_frequent) / num_rare
        log_weights = torch.where(batch.negatives < self.num_frequent, 0.0, -math.log(probability))
        losses = model(
            batch.ids,
            logits_at=batch.logits_at,
            targets=batch.targets,
            negatives=batch.negatives,
            log_weights=log_weights,
        )
        return {"words": LossTerm(losses.sum())}

    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Loss per token, perplexity, accuracy, and fraction of unknown tokens."""
        lead = (self.block_size - self.stride) // 2
        windows = sliding_window.read_windows(corpus, self.block_size, self.stride, lead, self.batch_size)
        inputs = ((ids, ids, scored & self.vocabulary.is_word[ids]) for _, ids, scored in windows)
        totals = sliding_window.score_windows(model, inputs)
        return {
            "loss": totals.loss,
            "perplexity": totals.perplexity,
            "accuracy": totals.accuracy,
            **totals.unknown_fraction(self.vocabulary.kind),
        }
