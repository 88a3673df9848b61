"""T5 (Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2.1).

    encoder:  x = E[source]        x = block_l(x)
    decoder:  y = E[target]        y = block_l(y, x), causal        P(w_{t+1}) = softmax(H y[t])

    E: `embed`    H: `head`, E / sqrt(dim) in T5 1.0 (`tied_head`), a separate matrix in T5 1.1
    an RMS norm before each sublayer and at the end of each stack; no biases anywhere

Positions are a trained bias on the scores, one table for all layers of a side (`encoder_positions`,
`decoder_positions`). `gated_ffn` is the feed-forward network of T5 1.1 (Shazeer 2020).

T5 does not divide its scores by sqrt(d_k) but initializes W_Q smaller by that factor. Here the scores are divided as
everywhere, and W_Q is larger by sqrt(d_k): the same function (`regard.hub.hf_t5` converts the weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import PackedLinear
from regard.attention.positions import PositionEncoding
from regard.attention.positions.t5_bias import T5Bias
from regard.attention.token_positions import PositionIds
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.cost_formulas import PartCost, PartCosts, matmul_cost, params_cost
from regard.layers.dropout import Dropout
from regard.layers.gated_feed_forward import GatedFeedForward
from regard.layers.typed_module_list import TypedModuleList
from regard.models.configured_model import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder

NORM = partial(nn.RMSNorm, eps=1e-6)


@dataclass(frozen=True)
class T5Config(ModelConfig):
    """The small T5 1.0.

    Attributes:
        hidden: Width of the feed-forward network.
        decoder_layers: Number of decoder layers; None for as many as `layers`.
        key_width: Width of the keys and values of each head (d_k).
        gated_ffn: Whether the feed-forward network is gated, as in T5 1.1.
        tied_head: Whether the output head shares the matrix of the embeddings.
    """

    dim: int = 512
    hidden: int = 2048
    layers: int = 6
    decoder_layers: int | None = None
    heads: int = 8
    key_width: int = 64
    gated_ffn: bool = False
    tied_head: bool = True
    dropout: float = 0.1


class T5(EncoderDecoder[T5Config]):
    """Text-to-text Transformer with relative position biases.

    Args:
        vocab_size: Size of the vocabulary that both sides share.
        config: The options; or pass fields of `T5Config` as keywords.
    """

    config_class = T5Config

    def __init__(self, vocab_size: int, config: T5Config | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        self.embed = nn.Embedding(vocab_size, c.dim)
        self.encoder_positions = T5Bias(c.dim, c.heads)
        self.decoder_positions = T5Bias(c.dim, c.heads, bidirectional=False)
        self.dropout = Dropout(c.dropout)

        def attention(positions: PositionEncoding | None) -> MultiHeadAttention:
            return MultiHeadAttention(c.dim, c.heads, positions=positions, value_width=c.key_width, bias=False)

        block_options: dict[str, Any] = {"residual": PreNorm, "dropout": c.dropout, "norm": NORM}
        self.encoder = TypedModuleList[EncoderBlock](
            EncoderBlock(attention(self.encoder_positions), self._build_ffn(), **block_options) for _ in range(c.layers)
        )
        self.decoder = TypedModuleList[DecoderBlock](
            DecoderBlock(attention(self.decoder_positions), attention(None), self._build_ffn(), **block_options)
            for _ in range(c.decoder_layers or c.layers)
        )
        self.encoder_norm, self.decoder_norm = NORM(c.dim), NORM(c.dim)
        self.scale = c.dim**-0.5 if c.tied_head else 1.0
        self.out = self.embed if c.tied_head else nn.Linear(c.dim, vocab_size, bias=False)
        self._init_weights()

    def embed_tokens(self, ids: Tensor, position_ids: PositionIds) -> Tensor:
        return self.dropout(self.embed(ids))

    def head(self, states: Tensor) -> Tensor:
        return F.linear(self.scale * states, self.out.weight)

    def output_dropout(self, states: Tensor) -> Tensor:
        return self.dropout(states)

    def _build_ffn(self) -> nn.Module:
        c = self.config
        if c.gated_ffn:
            gelu = partial(F.gelu, approximate="tanh")
            return GatedFeedForward(c.dim, c.hidden, activation=gelu, dropout=c.dropout, bias=False)
        return FeedForward(c.dim, c.hidden, activation=F.relu, dropout=c.dropout, bias=False)

    def _init_weights(self) -> None:
        """Embeddings from N(0, 1); each matrix from N(0, 1/in_features), as in T5's code."""
        nn.init.normal_(self.embed.weight)
        for module in self.modules():
            if isinstance(module, (nn.Linear, PackedLinear)):
                nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)

    def embedding_costs(self) -> PartCosts:
        yield params_cost("embeddings", self.embed)
        yield params_cost("positions", self.encoder_positions, self.decoder_positions)

    def head_cost(self, n: int) -> PartCost:
        vocab_size, dim = self.embed.weight.shape
        return matmul_cost("head", n, dim, vocab_size, 0 if self.config.tied_head else vocab_size * dim)
