"""The Transformer (Vaswani et al. 2017, Attention Is All You Need, figure 1).

    encoder:  x = sqrt(dim) E[source] + P        x = block_l(x)
    decoder:  y = sqrt(dim) E[target] + P        y = block_l(y, x), causal        P(w_{t+1}) = softmax(E y[t] + b)

    E: `embed`, one matrix for both sides and the head (3.4)    P: `positions` (3.5)    b: `bias`

Differences from the paper: any mechanism and positions; the head has a bias; `norm="pre"` puts a norm before each
sublayer and one at the end of each stack, which trains without a careful warmup. A mechanism that does not support
cross-attention is used for self-attention only; cross-attention then uses the dot product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import positions
from regard.attention.mechanisms import MECHANISMS
from regard.config import specs
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention
from regard.layers.dropout import Dropout
from regard.layers.norm_placement import LAST_NORMS, RESIDUALS
from regard.layers.typed_module_list import TypedModuleList
from regard.models.configured_model import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """Sizes that train on a CPU; `BASE` is the paper's base model.

    Attributes:
        hidden: Width of the feed-forward network.
        decoder_layers: Number of decoder layers; None for as many as `layers`.
        norm: "post" (after each sublayer, as in the paper) or "pre".
    """

    dim: int = 256
    hidden: int = 1024
    layers: int = 3
    decoder_layers: int | None = None
    heads: int = 4
    mechanism: str = "dot"
    positions: str = "sinusoidal"
    norm: str = "post"
    dropout: float = 0.1


BASE = TransformerConfig(dim=512, hidden=2048, layers=6, heads=8)
BASE_VOCAB_SIZE = 37_000


class Transformer(EncoderDecoder[TransformerConfig]):
    """Encoder-decoder Transformer for translation.

    Args:
        vocab_size: Size of the vocabulary that both sides share.
        config: The options; or pass fields of `TransformerConfig` as keywords.
    """

    config_class = TransformerConfig

    def __init__(self, vocab_size: int, config: TransformerConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        residual = specs.find_choice("norm", c.norm, RESIDUALS)
        cross_mechanism = cross_attention_mechanism(c.mechanism)
        self.scale = c.dim**0.5
        self.embed = nn.Embedding(vocab_size, c.dim)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.dropout = Dropout(c.dropout)

        def attention() -> MultiHeadAttention:
            return MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=self.positions.in_attention)

        def ffn() -> FeedForward:
            return FeedForward(c.dim, c.hidden, activation=F.relu)

        self.encoder = TypedModuleList[EncoderBlock](
            EncoderBlock(attention(), ffn(), residual=residual, dropout=c.dropout) for _ in range(c.layers)
        )
        self.decoder = TypedModuleList[DecoderBlock](
            DecoderBlock(
                attention(),
                MultiHeadAttention(c.dim, c.heads, cross_mechanism),
                ffn(),
                residual=residual,
                dropout=c.dropout,
            )
            for _ in range(c.decoder_layers or c.layers)
        )
        self.encoder_norm, self.decoder_norm = LAST_NORMS[c.norm](c.dim), LAST_NORMS[c.norm](c.dim)
        self._init_weights()

    def _init_weights(self) -> None:
        """Xavier for matrices, as in tensor2tensor. Embeddings have a norm of about 1 before they are scaled up.

        A mechanism initializes its own projections.
        """
        nn.init.normal_(self.embed.weight, std=self.config.dim**-0.5)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear) and ".mechanism." not in name:
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)


def cross_attention_mechanism(mechanism: str) -> str:
    """The mechanism for cross-attention: "dot" where the given one does not support it."""
    name, _ = specs.parse_spec(mechanism)
    return mechanism if MECHANISMS.find(name).supports_cross_attention else "dot"
