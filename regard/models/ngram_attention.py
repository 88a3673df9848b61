"""Attention over n-grams: naive Bayes log-count ratios of words, pairs and triples, weighted by attention.

    x[t] = (E[w_t], r[g_1(t)], r[g_2(t)], r[g_3(t)])      r[g]: a number per class, see regard.layers.ngram_log_ratios
    α = softmax(u · tanh(W x + b))          v = Σ_t α[t] x[t]           (the pooling of Yang et al. 2016, eqs. 5-7)
    logits = s (C v + c) + Σ_k τ_k r_k(v)                                r_k(v): the part of v from the r[g_k]

It starts as naive Bayes over n-grams: u and C are zero, so that all positions have the same weight. NB-SVM (Wang &
Manning 2012) starts from the same ratios and fits one weight for each n-gram; here attention decides where they count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.layers import AttentionPooling
from regard.layers.cost_formulas import PartCosts, linear_cost, matmul_cost, params_cost, pooling_cost
from regard.layers.ngram_log_ratios import NGramLogRatios
from regard.models.classifier_output import ClassifierOutput, all_real, document_positions
from regard.models.configured_model import ConfiguredModel, ModelConfig

SCALE = 10.0
"""s: averages over a document are small numbers, from which training is slow."""


@dataclass(frozen=True)
class NGramAttentionConfig(ModelConfig):
    """Options of attention over n-grams.

    Attributes:
        attention: Hidden width of the attention pooling.
        ngrams: Length of the longest n-gram.
        table_size: Number of n-grams that are counted at most, the most frequent first.
        folds: Parts of the training data; the ratios of a document are counted on the other parts.
        ratio_weight: Initial weight of the log-count ratios in the logits (τ).
    """

    embed: int = 32
    attention: int = 32
    ngrams: int = 3
    table_size: int = 200_000
    folds: int = 10
    ratio_weight: float = 4.0
    dropout: float = 0.3


class NGramAttention(ConfiguredModel[NGramAttentionConfig]):
    """Attention pooling over embeddings and n-gram log-count ratios.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `NGramAttentionConfig` as keywords.
    """

    config_class = NGramAttentionConfig

    def __init__(self, vocab_size: int, num_classes: int, config: NGramAttentionConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        self.embedding = nn.Embedding(vocab_size, c.embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.ngrams = NGramLogRatios(
            vocab_size, num_classes, table_size=c.table_size, max_n=c.ngrams, folds=c.folds, dropout=c.dropout
        )
        width = c.embed + c.ngrams * num_classes
        self.dropout = nn.Dropout1d(c.dropout)  # of whole words
        self.pool = AttentionPooling(width, c.attention)
        self.head = nn.Linear(width, num_classes)
        self.ratio_weight = nn.Parameter(torch.full((c.ngrams,), c.ratio_weight))
        for weight in (self.pool.context.weight, self.head.weight, self.head.bias):
            nn.init.zeros_(weight)

    def fit_training_data(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        """Count the n-grams of the training data."""
        self.ngrams.fit(ids, starts, labels)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Token ids and mask (b, n) to logits (b, classes); `sentences` is not used."""
        mask = all_real(ids) if mask is None else mask
        ratios = self.ngrams(ids, mask)  # (b, n, ngrams, classes)
        x = torch.cat((self.dropout(self.embedding(ids)), ratios.flatten(2)), -1)
        v = self.pool(x, mask, document_positions(ids))[0][:, 0]
        pooled_ratios = v[:, -ratios[0, 0].numel() :].unflatten(1, ratios.shape[2:])
        return ClassifierOutput(self.head(SCALE * v) + torch.einsum("bkc,k->bc", pooled_ratios, self.ratio_weight))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("embeddings", self.embedding)
        yield params_cost("n-grams", self.ngrams)
        yield pooling_cost("pool", self.pool, n)
        yield linear_cost("head", self.head, 1)
        ngrams = self.ratio_weight.numel()
        yield matmul_cost("ratio weight", self.head.out_features, ngrams, 1, ngrams)
