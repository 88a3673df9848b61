"""Attention over n-grams: what naive Bayes says of each word, pair and triple, weighed by what else is known there.

    x[t] = (E[w_t], r[g_1(t)], r[g_2(t)], r[g_3(t)])      r[g]: a number for each class, see `regard.layers.ngram_log_ratios`
    α = softmax(u · tanh(W x + b))          v = Σ_t α[t] x[t]           (the pooling of Yang et al. 2016, eqs. 5-7)
    logits = s (C v + c) + Σ_k τ_k r_k(v)                                r_k(v): the part of v that holds the r[g_k]

It starts as naive Bayes over n-grams: u and C are zero, so all places weigh the same. NB-SVM (Wang & Manning 2012)
goes on from the same ratios by fitting one weight for each n-gram; here attention decides where they count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.token_positions import QueryKeyPositions
from regard.layers import AttentionPooling
from regard.layers.ngram_log_ratios import NGramLogRatios
from regard.models.classifier_output import ClassifierOutput

SCALE = 10.0
"""s: means over a document are small numbers, and would be learnt from slowly."""


@dataclass(frozen=True)
class NGramAttentionConfig:
    """`table` is how many n-grams are known at most, the most frequent first; `ngrams` is the longest one."""

    embed: int = 32
    attention: int = 32
    ngrams: int = 3
    table: int = 200_000
    folds: int = 10
    trust: float = 4.0
    dropout: float = 0.3

    def build(self, vocab: int, classes: int) -> NGramAttention:
        return NGramAttention(vocab, classes, self)


class NGramAttention(nn.Module):
    config_class = NGramAttentionConfig

    def __init__(self, vocab: int, classes: int, config: NGramAttentionConfig):
        super().__init__()
        c = config
        self.embedding = nn.Embedding(vocab, c.embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.ngrams = NGramLogRatios(vocab, classes, table=c.table, most=c.ngrams, folds=c.folds, dropout=c.dropout)
        width = c.embed + c.ngrams * classes
        self.dropout = nn.Dropout1d(c.dropout)  # of whole words
        self.pool = AttentionPooling(width, c.attention)
        self.head = nn.Linear(width, classes)
        self.trust = nn.Parameter(torch.full((c.ngrams,), c.trust))
        for weight in (self.pool.context.weight, self.head.weight, self.head.bias):
            nn.init.zeros_(weight)

    def fit_training_data(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        self.ngrams.fill(ids, starts, labels)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor | None = None) -> ClassifierOutput:
        """ids and mask (b, n); sentences are not used."""
        ratios = self.ngrams(ids, mask)  # (b, n, most, classes)
        x = torch.cat((self.dropout(self.embedding(ids)), ratios.flatten(2)), -1)
        v = self.pool(x, mask, QueryKeyPositions(range(1), range(ids.shape[1]), "document", "tokens"))[0][:, 0]
        r = v[:, -ratios[0, 0].numel() :].unflatten(1, ratios.shape[2:])
        return ClassifierOutput(self.head(SCALE * v) + torch.einsum("bkc,k->bc", r, self.trust))
