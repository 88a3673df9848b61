"""Hierarchical attention network (Yang et al. 2016, Hierarchical Attention Networks for Document Classification).

    words       h_it = [GRU→(w_i1..w_it); GRU←(w_iT..w_it)]      u_it = tanh(W_w h_it + b_w)      eqs. 1-5
                α_it = softmax_t(u_itᵀ u_w)                      s_i = Σ_t α_it h_it              eqs. 6, 7
    sentences   the same over the s_i, giving v                                                   eqs. 8-10
    class       softmax(W_c v + b_c)                                                              eq. 11

With `ngrams` the words come with what naive Bayes says of the n-grams that start at them (`regard.layers.ngram_log_ratios`), a
number for each length and class beside the embedding; with `word_shape` they come with a vector of that width for how they
are written (`regard.data.word_shape`), which a vocabulary without capitals does not tell. The paper has neither.

How we differ: sentences of all documents of a batch are encoded together in groups of like length, instead of as one
padded (batch, sentences, words) block; the result is the same and most of the padding is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.token_positions import QueryKeyPositions
from regard.data.word_shape import NUM_SHAPES, unpack_shapes
from regard.layers import AttentionPooling, BidirectionalRNN
from regard.layers.dropout import Dropout
from regard.layers.ngram_log_ratios import NGramLogRatios
from regard.models.classifier_output import ClassifierOutput
from regard.models.sentence_groups import sentence_groups


@dataclass(frozen=True)
class HANConfig:
    embed: int = 100
    hidden: int = 50
    attention: int = 100
    dropout: float = 0.3
    word_dropout: float = 0.0
    ngrams: int = 0
    table: int = 200_000
    folds: int = 10
    ngram_dropout: float = 0.3
    spread: float = 0.1  # of the embeddings at the start
    word_shape: int = 0

    def build(self, vocab: int, classes: int) -> HAN:
        known = None
        if self.ngrams:
            cut = {"most": self.ngrams, "folds": self.folds, "dropout": self.ngram_dropout}
            known = NGramLogRatios(vocab, classes, table=self.table, **cut)
        widths = self.embed, self.hidden, self.attention
        return HAN(vocab, classes, *widths, self.dropout, self.word_dropout, known, self.spread, self.word_shape)


class HAN(nn.Module):
    config_class = HANConfig

    def __init__(
        self,
        vocab: int,
        classes: int,
        embed: int,
        hidden: int,
        attention: int,
        dropout: float,
        word_dropout: float = 0.0,
        ngrams: NGramLogRatios | None = None,
        spread: float = 0.1,
        word_shape: int = 0,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=spread)
        self.ngrams = ngrams
        self.word_shape = nn.Embedding(NUM_SHAPES, word_shape) if word_shape else None
        width = embed + (ngrams.most * classes if ngrams else 0) + word_shape
        self.read_words, self.words = BidirectionalRNN(width, hidden), AttentionPooling(2 * hidden, attention)
        self.read_sentences, self.sentences = BidirectionalRNN(2 * hidden, hidden), AttentionPooling(2 * hidden, attention)
        self.dropout, self.drop_words = Dropout(dropout), nn.Dropout1d(word_dropout)
        self.head = nn.Linear(2 * hidden, classes)

    def fit_training_data(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        if self.ngrams is not None:
            self.ngrams.fill(ids if self.word_shape is None else unpack_shapes(ids)[0], starts, labels)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor) -> ClassifierOutput:
        """ids, mask and the number of each token's sentence in its document, each (b, n). With `word_shape` ids say as well
        how the words are written."""
        groups = sentence_groups(mask, sentences)
        b, s = mask.shape[0], groups.most
        encoded = self.head.weight.new_zeros(b * s, self.head.in_features)
        beside: list[Tensor] = []  # (b * n, ...)
        if self.word_shape is not None:
            ids, shape = unpack_shapes(ids)
            beside.append(self.word_shape(shape).flatten(0, 1))
        if self.ngrams is not None:
            beside.append(self.ngrams(ids, mask).flatten(2).flatten(0, 1))
        rows, vectors = [], []
        for group in groups:
            x = self.drop_words(self.dropout(self.embedding(ids.flatten()[group.tokens])))  # (rows, words, embed)
            if beside:
                x = torch.cat((x, *(one[group.tokens] for one in beside)), -1)
            h = self.read_words(x, group.lengths)
            at = QueryKeyPositions(group.sentence[:, None], group.at, "sentences", "tokens", group.document)
            vectors.append(self.words(h, group.mask, at)[0][:, 0])
            rows.append(group.document * s + group.sentence)
        if rows:
            encoded = encoded.index_copy(0, torch.cat(rows), torch.cat(vectors))
        h = self.read_sentences(self.dropout(encoded.view(b, s, -1)), groups.counts)
        real = torch.arange(s, device=ids.device) < groups.counts[:, None]
        document, _ = self.sentences(h, real, QueryKeyPositions(range(1), range(s), "document", "sentences"))
        return ClassifierOutput(self.head(self.dropout(document[:, 0])))
