"""Marian's Transformer (Junczys-Dowmunt et al. 2018, Marian: Fast Neural Machine Translation in C++), the model of the
OPUS-MT translators, as Hugging Face keeps them.

    encoder:  x = s E[source] + P        x = block_l(x)
    decoder:  y = s E[target] + P        y = block_l(y, x), causal        P(w_{t+1}) = softmax(E y[t] + b)

    E: `embed`, one matrix for both sides and the head    P: `positions`, sines first    b: `bias`
    s: sqrt(dim) where the config says `scaled`, else 1

It is the Transformer of `transformer.py` with norms after each part, other activations (OPUS-MT: swish), and its own
order of the positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.masks import Mask
from regard.attention.positions.sinusoidal_halves import SinusoidalHalves
from regard.attention.token_positions import PositionIds
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, PostNorm
from regard.layers.activations import activation
from regard.layers.dropout import Dropout
from regard.layers.transformer_blocks import decoder_step
from regard.layers.typed_module_list import TypedModuleList


@dataclass(frozen=True)
class MarianConfig:
    """The sizes of OPUS-MT's models. `decoder_layers` is as many as `layers` where it is not given."""

    vocab: int = 58_101
    dim: int = 512
    hidden: int = 2048
    layers: int = 6
    decoder_layers: int | None = None
    heads: int = 8
    activation: str = "swish"
    scaled: bool = True
    dropout: float = 0.1


class Marian(nn.Module):
    config_class = MarianConfig

    def __init__(self, config: MarianConfig):
        super().__init__()
        self.config = c = config
        self.scale = c.dim**0.5 if c.scaled else 1.0
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.bias = nn.Parameter(torch.zeros(c.vocab))
        self.positions = SinusoidalHalves(c.dim, c.heads)
        self.dropout = Dropout(c.dropout)
        self.encoder = TypedModuleList[EncoderBlock](self._encoder_block() for _ in range(c.layers))
        self.decoder = TypedModuleList[DecoderBlock](self._decoder_block() for _ in range(c.decoder_layers or c.layers))
        self._start()

    def forward(
        self, source: Tensor, target: Tensor, *, source_mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Tensor:
        """source (b, m), target (b, n) to logits of the next target word (b, n, vocab). Masks: True for what is
        real."""
        read = self.read(self.encode(source, mask=source_mask), mask=source_mask)
        return self.decode(target, read, mask=target_mask)

    def encode(self, ids: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """What is known at each place of the source, (b, m, dim)."""
        x = self._embed(ids, range(ids.shape[1]))
        for layer in self.encoder:
            x = layer(x, mask=mask)
        return x

    def read(self, states: Tensor, *, mask: Tensor | None = None) -> list[KVCache]:
        """The source as each decoder layer regards it: read once, for all steps."""
        return [layer.cross_attention.project_kv(states, mask=mask) for layer in self.decoder]

    def decode(self, ids: Tensor, source: list[KVCache], *, mask: Mask | Tensor | None = None) -> Tensor:
        """All target places at once, (b, n) to (b, n, vocab)."""
        x = self._embed(ids, range(ids.shape[1]))
        for layer, memory in zip(self.decoder, source, strict=True):
            x = layer(x, memory, mask=mask)
        return self.head(x)

    def step(self, ids: Tensor, past: list[KVCache] | None, source: list[KVCache]) -> tuple[Tensor, list[KVCache]]:
        """The next target words (b, new) to logits, and the memories to go on from, one per layer."""
        position_ids = next_position_ids(past[0] if past else None, ids.shape[1])
        x, kept = decoder_step(self.decoder, self._embed(ids, position_ids), past, source, position_ids)
        return self.head(x), kept

    def head(self, states: Tensor) -> Tensor:
        return F.linear(states, self.embed.weight, self.bias)

    def _embed(self, ids: Tensor, position_ids: PositionIds) -> Tensor:
        return self.dropout(self.positions.embed(self.scale * self.embed(ids), position_ids))

    def _attention(self) -> MultiHeadAttention:
        return MultiHeadAttention(self.config.dim, self.config.heads)

    def _feed(self) -> FeedForward:
        return FeedForward(self.config.dim, self.config.hidden, activation=activation(self.config.activation))

    def _encoder_block(self) -> EncoderBlock:
        return EncoderBlock(self._attention(), self._feed(), residual=PostNorm, dropout=self.config.dropout)

    def _decoder_block(self) -> DecoderBlock:
        own, source, feed = self._attention(), self._attention(), self._feed()
        return DecoderBlock(own, source, feed, residual=PostNorm, dropout=self.config.dropout)

    def _start(self) -> None:
        """Xavier, as Marian does; embeddings of length about one before they are scaled up."""
        nn.init.normal_(self.embed.weight, std=self.config.dim**-0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
