"""Marian's Transformer (Junczys-Dowmunt et al. 2018, Marian: Fast Neural Machine Translation in C++), the model of the
OPUS-MT translators in the form that Hugging Face publishes.

    encoder:  x = s E[source] + P        x = block_l(x)
    decoder:  y = s E[target] + P        y = block_l(y, x), causal        P(w_{t+1}) = softmax(E y[t] + b)

    E: `embed`, one matrix for both sides and the head    P: `positions`, all sines first, then cosines    b: `bias`
    s: sqrt(dim) with `scale_embedding`, else 1

It is the Transformer of `transformer.py` with a norm after each sublayer, other activations (OPUS-MT: swish), and
another order of the sinusoidal positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.attention.positions.sinusoidal_halves import SinusoidalHalves
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, PostNorm
from regard.layers.activations import activation
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.configured_model import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class MarianConfig(ModelConfig):
    """The sizes of the OPUS-MT models.

    Attributes:
        hidden: Width of the feed-forward network.
        decoder_layers: Number of decoder layers; None for as many as `layers`.
        scale_embedding: Whether embeddings are multiplied by sqrt(dim).
    """

    dim: int = 512
    hidden: int = 2048
    layers: int = 6
    decoder_layers: int | None = None
    heads: int = 8
    activation: str = "swish"
    scale_embedding: bool = True
    dropout: float = 0.1


class Marian(EncoderDecoder[MarianConfig]):
    """Encoder-decoder Transformer of the OPUS-MT translators.

    Args:
        vocab_size: Size of the vocabulary that both sides share.
        config: The options; or pass fields of `MarianConfig` as keywords.
    """

    config_class = MarianConfig

    def __init__(self, vocab_size: int, config: MarianConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        self.scale = c.dim**0.5 if c.scale_embedding else 1.0
        self.embed = nn.Embedding(vocab_size, c.dim)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.positions = SinusoidalHalves(c.dim, c.heads)
        self.dropout = Dropout(c.dropout)

        def attention() -> MultiHeadAttention:
            return MultiHeadAttention(c.dim, c.heads)

        def ffn() -> FeedForward:
            return FeedForward(c.dim, c.hidden, activation=activation(c.activation))

        self.encoder = TypedModuleList[EncoderBlock](
            EncoderBlock(attention(), ffn(), residual=PostNorm, dropout=c.dropout) for _ in range(c.layers)
        )
        self.decoder = TypedModuleList[DecoderBlock](
            DecoderBlock(attention(), attention(), ffn(), residual=PostNorm, dropout=c.dropout)
            for _ in range(c.decoder_layers or c.layers)
        )
        self.encoder_norm, self.decoder_norm = nn.Identity(), nn.Identity()
        self._init_weights()

    def _init_weights(self) -> None:
        """Xavier for matrices, as in Marian. Embeddings have a norm of about 1 before they are scaled up."""
        nn.init.normal_(self.embed.weight, std=self.config.dim**-0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
