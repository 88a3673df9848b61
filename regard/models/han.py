"""Hierarchical attention network (Yang et al. 2016, Hierarchical Attention Networks for Document Classification).

    words       h_it = [GRU→(w_i1..w_it); GRU←(w_iT..w_it)]      u_it = tanh(W_w h_it + b_w)      eqs. 1-5
                α_it = softmax_t(u_itᵀ u_w)                      s_i = Σ_t α_it h_it              eqs. 6, 7
    sentences   the same over the s_i, giving v                                                   eqs. 8-10
    class       softmax(W_c v + b_c)                                                              eq. 11

How we differ: sentences of all documents of a batch are encoded together in groups of like length, instead of as one
padded (batch, sentences, words) block; the result is the same and most of the padding is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.layers import Pool, TwoWay
from regard.models.output import Classified
from regard.models.sentences import sentence_groups
from regard.places import Places


@dataclass(frozen=True)
class Config:
    embed: int = 100
    hidden: int = 50
    attention: int = 100
    dropout: float = 0.3

    def build(self, vocab: int, classes: int) -> HAN:
        return HAN(vocab, classes, self.embed, self.hidden, self.attention, self.dropout)


class HAN(nn.Module):
    def __init__(self, vocab: int, classes: int, embed: int, hidden: int, attention: int, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.read_words, self.words = TwoWay(embed, hidden), Pool(2 * hidden, attention)
        self.read_sentences, self.sentences = TwoWay(2 * hidden, hidden), Pool(2 * hidden, attention)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor) -> Classified:
        """ids, mask and the number of each token's sentence in its document, each (b, n)."""
        groups = sentence_groups(mask, sentences)
        b, s = mask.shape[0], groups.most
        encoded = self.head.weight.new_zeros(b * s, self.head.in_features)
        rows, vectors = [], []
        for group in groups:
            x = self.dropout(self.embedding(ids.flatten()[group.tokens]))  # (rows, words, embed)
            h = self.read_words(x, group.lengths)
            at = Places(group.sentence[:, None], group.at, "sentences", "tokens", group.document)
            vectors.append(self.words(h, group.mask, at)[0][:, 0])
            rows.append(group.document * s + group.sentence)
        if rows:
            encoded = encoded.index_copy(0, torch.cat(rows), torch.cat(vectors))
        h = self.read_sentences(self.dropout(encoded.view(b, s, -1)), groups.counts)
        real = torch.arange(s, device=ids.device) < groups.counts[:, None]
        document, _ = self.sentences(h, real, Places(range(1), range(s), "document", "sentences"))
        return Classified(self.head(self.dropout(document[:, 0])))
