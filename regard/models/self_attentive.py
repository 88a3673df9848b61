"""Structured self-attentive sentence embedding (Lin et al. 2017, A Structured Self-attentive Sentence Embedding).

    H = [LSTM→(w_1..w_n); LSTM←(w_n..w_1)]      (n × 2u)                             eqs. 1-4
    A = softmax(W_s2 tanh(W_s1 Hᵀ))             (r × n), r hops                      eq. 6
    M = A H                                     (r × 2u)                             eq. 7
    P = ‖A Aᵀ - I‖²_F                           a term of the loss, times `penalty`  eq. 8
    class = softmax(W_c ReLU(W_f M + b_f) + b_c)

u is `hidden`, d_a (the rows of W_s1) is `attention`, r is `hops`. How we differ: smaller by default (the paper has
u = 300, d_a = 350, r = 30 and a layer of 2000 to 3000 above), and padding weighs exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions
from regard.errors import UserError
from regard.layers import AttentionPooling, BidirectionalRNN, hop_penalty
from regard.layers.dropout import Dropout
from regard.models.classifier_output import ClassifierOutput


@dataclass(frozen=True)
class SelfAttentiveConfig:
    embed: int = 100
    hidden: int = 100
    attention: int = 100
    hops: int = 8
    penalty: float = 0.01
    features: int = 256
    dropout: float = 0.3

    def build(self, vocab: int, classes: int) -> SelfAttentive:
        if self.penalty < 0:
            raise UserError(f"penalty is a weight of 0 or more, and was given {self.penalty}")
        return SelfAttentive(vocab, classes, self)


class SelfAttentive(nn.Module):
    config_class = SelfAttentiveConfig

    def __init__(self, vocab: int, classes: int, config: SelfAttentiveConfig):
        super().__init__()
        self.config = c = config
        self.embedding = nn.Embedding(vocab, c.embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.read = BidirectionalRNN(c.embed, c.hidden, "lstm")
        self.pool = AttentionPooling(2 * c.hidden, c.attention, c.hops, bias=False)
        self.features = nn.Sequential(nn.Linear(c.hops * 2 * c.hidden, c.features), nn.ReLU())
        self.dropout = Dropout(c.dropout)
        self.head = nn.Linear(c.features, classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor | None = None) -> ClassifierOutput:
        """ids and mask (b, n); sentences are not used."""
        h = self.read(self.dropout(self.embedding(ids)), mask.sum(1))  # (b, n, 2u)
        m, scores = self.pool(h, mask, QueryKeyPositions(range(self.config.hops), range(ids.shape[1]), "hops", "tokens"))
        logits = self.head(self.dropout(self.features(self.dropout(m.flatten(1)))))
        if not self.config.penalty:
            return ClassifierOutput(logits)
        alike = hop_penalty(scores.weights(Mask(key_mask=mask))).sum()
        return ClassifierOutput(logits, {"penalty": (alike, self.config.penalty)})
