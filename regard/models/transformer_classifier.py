"""Transformer encoder classifier (the encoder of Vaswani et al. 2017, with attention pooling as in Lin et al. 2017).

    x = e[w] + PE        x = x + MHA(LN(x))        x = x + FFN(LN(x))        class = softmax(W_c pool(LN(x)) + b_c)

Difference from the paper: there is a norm before each sublayer (pre-norm), which trains without a long warmup. With
norm="post" there is a norm after each sublayer and one after the embeddings, as in BERT, whose weights can be loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from regard.attention import positions
from regard.config import specs
from regard.config.validation import check_positive
from regard.layers import AttentionPooling, EncoderBlock, FeedForward, MultiHeadAttention
from regard.layers.activations import activation
from regard.layers.cost_formulas import PartCosts, encoder_block_costs, linear_cost, params_cost, pooling_cost
from regard.layers.dropout import Dropout
from regard.layers.norm_placement import EPS, FIRST_NORMS, LAST_NORMS, RESIDUALS
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import ClassifierOutput, document_positions
from regard.models.configured_model import ConfiguredModel, ModelConfig


@dataclass(frozen=True)
class TransformerClassifierConfig(ModelConfig):
    """Options of the Transformer classifier.

    Attributes:
        hidden: Width of the feed-forward network.
        norm: "pre" or "post".
    """

    dim: int = 128
    layers: int = 2
    heads: int = 4
    hidden: int = 256
    mechanism: str = "dot"
    positions: str = "sinusoidal"
    dropout: float = 0.1
    norm: str = "pre"
    activation: str = "gelu"


class TransformerClassifier(ConfiguredModel[TransformerClassifierConfig]):
    """Transformer encoder, attention pooling and a linear head.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `TransformerClassifierConfig` as keywords.
    """

    config_class = TransformerClassifierConfig

    def __init__(
        self, vocab_size: int, num_classes: int, config: TransformerClassifierConfig | None = None, **options: Any
    ):
        super().__init__(config, options)
        c = self.config
        check_positive("transformer", layers=c.layers)
        residual, eps = specs.find_choice("norm", c.norm, RESIDUALS), EPS[c.norm]
        position_encoding = positions.build(c.positions, c.dim, c.heads)
        blocks = [
            EncoderBlock(
                MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=position_encoding),
                FeedForward(c.dim, c.hidden, activation=activation(c.activation)),
                residual=residual,
                dropout=c.dropout,
                norm=partial(nn.LayerNorm, eps=eps),
            )
            for _ in range(c.layers)
        ]
        self.embedding = nn.Embedding(vocab_size, c.dim, padding_idx=0)
        self.positions, self.layers = position_encoding, TypedModuleList[EncoderBlock](blocks)
        self.first_norm, self.norm = FIRST_NORMS[c.norm](c.dim, eps), LAST_NORMS[c.norm](c.dim, eps)
        self.pool, self.dropout = AttentionPooling(c.dim), Dropout(c.dropout)
        self.head = nn.Linear(c.dim, num_classes)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Token ids and mask (b, n) to logits (b, classes); `sentences` is not used."""
        key_mask = None if mask is None or mask.all() else mask
        x = self.dropout(self.first_norm(self.positions.embed(self.embedding(ids), range(ids.shape[1]))))
        for layer in self.layers:
            x = layer(x, key_mask=key_mask)
        document, _ = self.pool(self.norm(x), key_mask, document_positions(ids))
        return ClassifierOutput(self.head(self.dropout(document[:, 0])))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("embeddings", self.embedding)
        yield params_cost("positions", self.positions)
        for i, block in enumerate(self.layers):
            yield from encoder_block_costs(f"layers.{i}", block, n)
        yield params_cost("norms", self.first_norm, self.norm)
        yield pooling_cost("pool", self.pool, n)
        yield linear_cost("head", self.head, 1)
