"""A text classifier with the layers of the causal convolutional language model, so that a pretrained one can be used.

h = norm(x_L)                                       models/causal_cnn.py: each position from those before it
v = Σ_t α[t] h[t]                                   α: layers/attention_pooling.py (Yang et al. 2016, eqs. 5-7)
class = softmax(W_c v + b_c)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.layers import AttentionPooling
from regard.layers.cost_formulas import PartCosts, linear_cost, params_cost, pooling_cost
from regard.layers.dropout import Dropout
from regard.models.causal_cnn import CausalCNNConfig, build_gated_convs, gated_conv_costs
from regard.models.classifier_output import ClassifierOutput, document_positions
from regard.models.configured_model import ConfiguredModel


@dataclass(frozen=True)
class GatedCNNConfig(CausalCNNConfig):
    """The options of the causal language model, smaller by default."""

    dim: int = 128
    layers: int = 4
    dropout: float = 0.3


class GatedCNN(ConfiguredModel[GatedCNNConfig]):
    """Gated convolutions, attention pooling and a linear head.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `GatedCNNConfig` as keywords.
    """

    config_class = GatedCNNConfig

    def __init__(self, vocab_size: int, num_classes: int, config: GatedCNNConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        check_positive("gated-cnn", dim=c.dim)
        self.embedding = nn.Embedding(vocab_size, c.dim)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.layers = build_gated_convs(c.dim, c.layers, c.kernel_size, c.dilation_cycle, c.dropout)
        self.norm, self.dropout = nn.LayerNorm(c.dim), Dropout(c.dropout)
        self.pool = AttentionPooling(c.dim)
        self.head = nn.Linear(c.dim, num_classes)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Token ids (b, n) to logits (b, classes). No real position depends on padding; `sentences` is not used."""
        x = self.dropout(self.embedding(ids))
        for layer in self.layers:
            x = layer(x)
        document, _ = self.pool(self.norm(x), mask, document_positions(ids))
        return ClassifierOutput(self.head(self.dropout(document[:, 0])))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("embeddings", self.embedding)
        yield from gated_conv_costs(self.layers, n)
        yield params_cost("norm", self.norm)
        yield pooling_cost("pool", self.pool, n)
        yield linear_cost("head", self.head, 1)
