"""Hierarchical attention network (Yang et al. 2016, Hierarchical Attention Networks for Document Classification).

    words       h_it = [GRU→(w_i1..w_it); GRU←(w_iT..w_it)]      u_it = tanh(W_w h_it + b_w)      eqs. 1-5
                α_it = softmax_t(u_itᵀ u_w)                      s_i = Σ_t α_it h_it              eqs. 6, 7
    sentences   the same over the s_i, giving v                                                   eqs. 8-10
    class       softmax(W_c v + b_c)                                                              eq. 11

With `ngrams` the input of a word includes the naive Bayes log-count ratios of the n-grams that start at it
(`regard.layers.ngram_log_ratios`), a number for each length and class. With `word_shape` it includes an embedding of
the word's capitalization (`regard.data.word_shape`), which a lowercase vocabulary does not have. The paper has neither.

Difference from the paper: sentences of all documents of a batch are encoded together in groups of similar length, and
not as one padded (batch, sentences, words) block. The result is the same with much less padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.token_positions import QueryKeyPositions
from regard.data.word_shape import NUM_SHAPES, unpack_shapes
from regard.layers import AttentionPooling, BidirectionalRNN
from regard.layers.cost_formulas import PartCosts, birnn_costs, linear_cost, params_cost, pooling_cost
from regard.layers.dropout import Dropout
from regard.layers.ngram_log_ratios import NGramLogRatios
from regard.models.classifier_output import ClassifierOutput
from regard.models.configured_model import ConfiguredModel, ModelConfig
from regard.models.sentence_groups import group_sentences, sentence_counts


@dataclass(frozen=True)
class HANConfig(ModelConfig):
    """Options of the hierarchical attention network.

    Attributes:
        attention: Hidden width of both attention poolings.
        word_dropout: Fraction of words whose embedding is dropped in training.
        ngrams: Length of the longest n-gram whose log-count ratios are used; 0 for none.
        table_size: Number of n-grams that are counted at most, the most frequent first.
        folds: Parts of the training data; the ratios of a document are counted on the other parts.
        ngram_dropout: Fraction of n-grams that are dropped in training.
        init_std: Standard deviation of the embeddings at the start.
        word_shape: Width of the embedding of a word's capitalization; 0 for none.
    """

    embed: int = 100
    hidden: int = 50
    attention: int = 100
    dropout: float = 0.3
    word_dropout: float = 0.0
    ngrams: int = 0
    table_size: int = 200_000
    folds: int = 10
    ngram_dropout: float = 0.3
    init_std: float = 0.1
    word_shape: int = 0


class HAN(ConfiguredModel[HANConfig]):
    """Attention over the words of each sentence, then over the sentences of a document.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `HANConfig` as keywords.
    """

    config_class = HANConfig

    def __init__(self, vocab_size: int, num_classes: int, config: HANConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        ngrams = None
        if c.ngrams:
            ngrams = NGramLogRatios(
                vocab_size, num_classes, table_size=c.table_size, max_n=c.ngrams, folds=c.folds, dropout=c.ngram_dropout
            )
        self.embedding = nn.Embedding(vocab_size, c.embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=c.init_std)
        self.ngrams = ngrams
        self.word_shape = nn.Embedding(NUM_SHAPES, c.word_shape) if c.word_shape else None
        width = c.embed + c.ngrams * num_classes + c.word_shape
        self.word_rnn, self.word_pool = BidirectionalRNN(width, c.hidden), AttentionPooling(2 * c.hidden, c.attention)
        self.sentence_rnn = BidirectionalRNN(2 * c.hidden, c.hidden)
        self.sentence_pool = AttentionPooling(2 * c.hidden, c.attention)
        self.dropout, self.word_dropout = Dropout(c.dropout), nn.Dropout1d(c.word_dropout)
        self.head = nn.Linear(2 * c.hidden, num_classes)

    def fit_training_data(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        """Count the n-grams of the training data."""
        if self.ngrams is not None:
            self.ngrams.fit(ids if self.word_shape is None else unpack_shapes(ids)[0], starts, labels)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Classify documents.

        Args:
            ids: Token ids, (b, n); with `word_shape` they hold the shape of the words too (`regard.data.word_shape`).
            mask: True for real tokens, (b, n); None if there is no padding.
            sentences: Number of each token's sentence in its document, (b, n); None for one sentence.

        Returns:
            Logits (b, classes).
        """
        groups, mask = group_sentences(ids, mask, sentences)
        b, s = len(ids), groups.max_sentences
        sentence_vectors = self.head.weight.new_zeros(b * s, self.head.in_features)
        extra_inputs: list[Tensor] = []  # (b · n, ...)
        if self.word_shape is not None:
            ids, shapes = unpack_shapes(ids)
            extra_inputs.append(self.word_shape(shapes).flatten(0, 1))
        if self.ngrams is not None:
            extra_inputs.append(self.ngrams(ids, mask).flatten(2).flatten(0, 1))
        rows, vectors = [], []
        for group in groups:
            x = self.word_dropout(self.dropout(self.embedding(ids.flatten()[group.tokens])))  # (rows, words, embed)
            if extra_inputs:
                x = torch.cat((x, *(inputs[group.tokens] for inputs in extra_inputs)), -1)
            h = self.word_rnn(x, group.lengths)
            qk_positions = QueryKeyPositions(
                group.sentence[:, None], group.positions, "sentences", "tokens", group.document
            )
            vectors.append(self.word_pool(h, group.mask, qk_positions)[0][:, 0])
            rows.append(group.document * s + group.sentence)
        if rows:
            sentence_vectors = sentence_vectors.index_copy(0, torch.cat(rows), torch.cat(vectors))
        h = self.sentence_rnn(self.dropout(sentence_vectors.view(b, s, -1)), groups.counts)
        document, _ = self.sentence_pool(h, groups.sentence_mask, groups.sentence_positions)
        return ClassifierOutput(self.head(self.dropout(document[:, 0])))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        sentences, words = sentence_counts(n)
        yield params_cost("embeddings", self.embedding)
        yield params_cost("n-grams", self.ngrams)
        yield params_cost("word shape", self.word_shape)
        yield from birnn_costs("words", self.word_rnn, words, sentences)
        yield pooling_cost("word attention", self.word_pool, words, sentences)
        yield from birnn_costs("sentences", self.sentence_rnn, sentences)
        yield pooling_cost("sentence attention", self.sentence_pool, sentences)
        yield linear_cost("head", self.head, 1)
