"""A bidirectional LSTM classifier (Graves & Schmidhuber 2005) with one of two poolings.

h_t = [LSTM→(w_1..w_t); LSTM←(w_n..w_t)]
pool = "last"          v = [h→_n; h←_1]: the state of each direction after its last word
pool = "attention"     α = softmax_t(uᵀ tanh(W h_t + b))      v = Σ_t α_t h_t      (Yang et al. 2016, eqs. 5-7)
class = softmax(W_c v + b_c)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.token_positions import QueryKeyPositions
from regard.config import specs
from regard.layers import AttentionPooling, BidirectionalRNN
from regard.layers.cost_formulas import PartCosts, birnn_costs, linear_cost, params_cost, pooling_cost
from regard.layers.dropout import Dropout
from regard.models.classifier_output import ClassifierOutput, all_real
from regard.models.configured_model import ConfiguredModel, ModelConfig


@dataclass(frozen=True)
class BiLSTMConfig(ModelConfig):
    """Options of the bidirectional LSTM. `pool` is "attention" or "last"."""

    embed: int = 100
    hidden: int = 100
    layers: int = 1
    pool: str = "attention"
    dropout: float = 0.3


class LastStates(nn.Module):
    """(b, n, 2 · hidden) to (b, 2 · hidden): the forward state after the last word, the backward state at the first."""

    def __init__(self, hidden: int):
        super().__init__()
        self.hidden = hidden

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        last = (mask.sum(1) - 1).clamp(min=0)
        forward_state = h[torch.arange(len(h), device=h.device), last, : self.hidden]
        return torch.cat((forward_state, h[:, 0, self.hidden :]), -1)


class WeightedStates(nn.Module):
    """(b, n, 2 · hidden) to (b, 2 · hidden): attention pooling."""

    def __init__(self, hidden: int):
        super().__init__()
        self.words = AttentionPooling(2 * hidden)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        qk_positions = QueryKeyPositions(range(1), range(h.shape[1]), "document", "tokens")
        return self.words(h, mask, qk_positions)[0][:, 0]


POOLINGS: dict[str, type[LastStates] | type[WeightedStates]] = {"last": LastStates, "attention": WeightedStates}


class BiLSTM(ConfiguredModel[BiLSTMConfig]):
    """Bidirectional LSTM, pooling and a linear head.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `BiLSTMConfig` as keywords.
    """

    config_class = BiLSTMConfig

    def __init__(self, vocab_size: int, num_classes: int, config: BiLSTMConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        pool = specs.find_choice("pooling", c.pool, POOLINGS)(c.hidden)
        self.embedding = nn.Embedding(vocab_size, c.embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.rnn, self.pool = BidirectionalRNN(c.embed, c.hidden, "lstm", c.layers), pool
        self.dropout = Dropout(c.dropout)
        self.head = nn.Linear(2 * c.hidden, num_classes)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Token ids and mask (b, n) to logits (b, classes); `sentences` is not used."""
        mask = all_real(ids) if mask is None else mask
        h = self.rnn(self.dropout(self.embedding(ids)), mask.sum(1))
        return ClassifierOutput(self.head(self.dropout(self.pool(h, mask))))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("embeddings", self.embedding)
        yield from birnn_costs("rnn", self.rnn, n)
        if isinstance(self.pool, WeightedStates):
            yield pooling_cost("pool", self.pool.words, n)
        yield linear_cost("head", self.head, 1)
