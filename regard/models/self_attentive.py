"""Structured self-attentive sentence embedding (Lin et al. 2017, A Structured Self-attentive Sentence Embedding).

    H = [LSTM→(w_1..w_n); LSTM←(w_n..w_1)]      (n × 2u)                                   eqs. 1-4
    A = softmax(W_s2 tanh(W_s1 Hᵀ))             (r × n), r hops                            eq. 6
    M = A H                                     (r × 2u)                                   eq. 7
    P = ‖A Aᵀ - I‖²_F                           a term of the loss with weight `penalty`   eq. 8
    class = softmax(W_c ReLU(W_f M + b_f) + b_c)

u is `hidden`, d_a (the rows of W_s1) is `attention`, r is `hops`. Differences from the paper: smaller by default (the
paper has u = 300, d_a = 350, r = 30 and a layer of 2000 to 3000 units after it), and the weight of padding is exactly
zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions
from regard.errors import UserError
from regard.layers import AttentionPooling, BidirectionalRNN, hop_penalty
from regard.layers.cost_formulas import PartCost, PartCosts, birnn_costs, linear_cost, params_cost, pooling_cost
from regard.layers.dropout import Dropout
from regard.models.classifier_output import ClassifierOutput, all_real
from regard.models.configured_model import ConfiguredModel, ModelConfig


@dataclass(frozen=True)
class SelfAttentiveConfig(ModelConfig):
    """Options of the self-attentive sentence embedding.

    Attributes:
        attention: Hidden width of the attention pooling (d_a).
        hops: Number of attention distributions (r).
        penalty: Weight of the hop penalty in the loss; 0 for none.
        features: Width of the layer after the pooling.
    """

    embed: int = 100
    hidden: int = 100
    attention: int = 100
    hops: int = 8
    penalty: float = 0.01
    features: int = 256
    dropout: float = 0.3


class SelfAttentive(ConfiguredModel[SelfAttentiveConfig]):
    """Bidirectional LSTM, attention pooling with several hops and two linear layers.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `SelfAttentiveConfig` as keywords.
    """

    config_class = SelfAttentiveConfig

    def __init__(self, vocab_size: int, num_classes: int, config: SelfAttentiveConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        if c.penalty < 0:
            raise UserError(f"penalty must be 0 or more, not {c.penalty}")
        self.embedding = nn.Embedding(vocab_size, c.embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.rnn = BidirectionalRNN(c.embed, c.hidden, "lstm")
        self.pool = AttentionPooling(2 * c.hidden, c.attention, c.hops, bias=False)
        self.features = nn.Sequential(nn.Linear(c.hops * 2 * c.hidden, c.features), nn.ReLU())
        self.dropout = Dropout(c.dropout)
        self.head = nn.Linear(c.features, num_classes)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Token ids and mask (b, n) to logits (b, classes) and the hop penalty; `sentences` is not used."""
        mask = all_real(ids) if mask is None else mask
        h = self.rnn(self.dropout(self.embedding(ids)), mask.sum(1))  # (b, n, 2u)
        qk_positions = QueryKeyPositions(range(self.config.hops), range(ids.shape[1]), "hops", "tokens")
        pooled, scores = self.pool(h, mask, qk_positions)
        logits = self.head(self.dropout(self.features(self.dropout(pooled.flatten(1)))))
        if not self.config.penalty:
            return ClassifierOutput(logits)
        penalty = hop_penalty(scores.weights(Mask(key_mask=mask))).sum()
        return ClassifierOutput(logits, {"penalty": (penalty, self.config.penalty)})

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("embeddings", self.embedding)
        yield from birnn_costs("rnn", self.rnn, n)
        yield pooling_cost("pool", self.pool, n)
        features = self.features[0]
        assert isinstance(features, nn.Linear)
        yield linear_cost("features", features, 1)
        yield linear_cost("head", self.head, 1)
        if self.config.penalty:
            yield PartCost("penalty", 0, 2 * self.config.hops**2 * n)
