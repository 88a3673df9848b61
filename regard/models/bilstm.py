"""Two-way LSTM that names a class (Graves & Schmidhuber 2005), read in one of two ways.

h_t = [LSTM→(w_1..w_t); LSTM←(w_n..w_t)]
pool = "last"          v = [h→_n; h←_1]: the state of each direction after its last word
pool = "attention"     α = softmax_t(uᵀ tanh(W h_t + b))      v = Σ_t α_t h_t      (Yang et al. 2016, eqs. 5-7)
class = softmax(W_c v + b_c)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.token_positions import QueryKeyPositions
from regard.config import specs
from regard.layers import AttentionPooling, BidirectionalRNN
from regard.layers.dropout import Dropout
from regard.models.classifier_output import ClassifierOutput


@dataclass(frozen=True)
class BiLSTMConfig:
    embed: int = 100
    hidden: int = 100
    layers: int = 1
    pool: str = "attention"
    dropout: float = 0.3

    def build(self, vocab: int, classes: int) -> BiLSTM:
        pool = specs.find("pooling", self.pool, POOLS)(self.hidden)
        return BiLSTM(vocab, classes, self.embed, self.hidden, self.layers, pool, self.dropout)


class Last(nn.Module):
    """(b, n, 2 · hidden) to (b, 2 · hidden): onward after the last word, back after the first."""

    def __init__(self, hidden: int):
        super().__init__()
        self.hidden = hidden

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        last = (mask.sum(1) - 1).clamp(min=0)
        onward = h[torch.arange(len(h), device=h.device), last, : self.hidden]
        return torch.cat((onward, h[:, 0, self.hidden :]), -1)


class ByAttention(nn.Module):
    """(b, n, 2 · hidden) to (b, 2 · hidden): the words, each by its weight."""

    def __init__(self, hidden: int):
        super().__init__()
        self.words = AttentionPooling(2 * hidden)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        return self.words(h, mask, QueryKeyPositions(range(1), range(h.shape[1]), "document", "tokens"))[0][:, 0]


POOLS: dict[str, type[Last] | type[ByAttention]] = {"last": Last, "attention": ByAttention}


class BiLSTM(nn.Module):
    config_class = BiLSTMConfig

    def __init__(self, vocab: int, classes: int, embed: int, hidden: int, layers: int, pool: nn.Module, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.read, self.pool = BidirectionalRNN(embed, hidden, "lstm", layers), pool
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor | None = None) -> ClassifierOutput:
        """ids and mask (b, n); sentences are not used."""
        h = self.read(self.dropout(self.embedding(ids)), mask.sum(1))
        return ClassifierOutput(self.head(self.dropout(self.pool(h, mask))))
