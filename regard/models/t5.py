"""T5 (Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2.1).

    encoder:  x = E[source]        x = block_l(x)
    decoder:  y = E[target]        y = block_l(y, x), causal        P(w_{t+1}) = softmax(H y[t])

    E: `embed`    H: `head`, which is E / sqrt(dim) in T5 1.0 (`tied`) and a matrix of its own in T5 1.1
    norms before each part and once at the end, by the root mean square alone; no biases anywhere

Where things stand comes in by a trained bias on the scores, one table for all layers of a side (`encoder_positions`,
`decoder_positions`). `gated` is the feed-forward net of T5 1.1 (Shazeer 2020).

T5 does not divide its scores by sqrt(d_k) but starts W_Q smaller by it. Here the scores are divided as everywhere, so
W_Q is larger by sqrt(d_k): the same function (`regard.hub.hf_t5` multiplies on the way in and divides on the way out).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.masks import Mask
from regard.attention.mechanisms.mechanism import PackedLinear
from regard.attention.positions import PositionEncoding
from regard.attention.positions.t5_bias import T5Bias
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.dropout import Dropout
from regard.layers.gated_feed_forward import GatedFeedForward
from regard.layers.transformer_blocks import decoder_step
from regard.layers.typed_module_list import TypedModuleList

NORM = partial(nn.RMSNorm, eps=1e-6)


@dataclass(frozen=True)
class T5Config:
    """The small T5 1.0. `decoder_layers` is as many as `layers` where it is not given; `key_width` is d_k."""

    vocab: int = 32_128
    dim: int = 512
    hidden: int = 2048
    layers: int = 6
    decoder_layers: int | None = None
    heads: int = 8
    key_width: int = 64
    gated: bool = False
    tied: bool = True
    dropout: float = 0.1


class T5(nn.Module):
    config_class = T5Config

    def __init__(self, config: T5Config):
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.encoder_positions = T5Bias(c.dim, c.heads)
        self.decoder_positions = T5Bias(c.dim, c.heads, bidirectional=False)
        self.dropout = Dropout(c.dropout)
        self.encoder = TypedModuleList[EncoderBlock](self._encoder_block() for _ in range(c.layers))
        self.decoder = TypedModuleList[DecoderBlock](self._decoder_block() for _ in range(c.decoder_layers or c.layers))
        self.encoder_norm, self.decoder_norm = NORM(c.dim), NORM(c.dim)
        self.scale = c.dim**-0.5 if c.tied else 1.0
        self.out = self.embed if c.tied else nn.Linear(c.dim, c.vocab, bias=False)
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
        x = self.dropout(self.embed(ids))
        for layer in self.encoder:
            x = layer(x, mask=mask)
        return self.dropout(self.encoder_norm(x))

    def read(self, states: Tensor, *, mask: Tensor | None = None) -> list[KVCache]:
        """The source as each decoder layer regards it: read once, for all steps."""
        return [layer.cross_attention.project_kv(states, mask=mask) for layer in self.decoder]

    def decode(self, ids: Tensor, source: list[KVCache], *, mask: Mask | Tensor | None = None) -> Tensor:
        """All target places at once, (b, n) to (b, n, vocab)."""
        x = self.dropout(self.embed(ids))
        for layer, memory in zip(self.decoder, source, strict=True):
            x = layer(x, memory, mask=mask)
        return self.head(self.dropout(self.decoder_norm(x)))

    def step(self, ids: Tensor, past: list[KVCache] | None, source: list[KVCache]) -> tuple[Tensor, list[KVCache]]:
        """The next target words (b, new) to logits, and the memories to go on from, one per layer."""
        position_ids = next_position_ids(past[0] if past else None, ids.shape[1])
        x, kept = decoder_step(self.decoder, self.dropout(self.embed(ids)), past, source, position_ids)
        return self.head(self.decoder_norm(x)), kept

    def head(self, states: Tensor) -> Tensor:
        return F.linear(self.scale * states, self.out.weight)

    def _attention(self, place: PositionEncoding | None) -> MultiHeadAttention:
        c = self.config
        return MultiHeadAttention(c.dim, c.heads, positions=place, value_width=c.key_width, bias=False)

    def _feed(self) -> nn.Module:
        c = self.config
        if c.gated:
            act = partial(F.gelu, approximate="tanh")
            return GatedFeedForward(c.dim, c.hidden, activation=act, dropout=c.dropout, bias=False)
        return FeedForward(c.dim, c.hidden, activation=F.relu, dropout=c.dropout, bias=False)

    def _encoder_block(self) -> EncoderBlock:
        own = self._attention(self.encoder_positions)
        return EncoderBlock(own, self._feed(), residual=PreNorm, dropout=self.config.dropout, norm=NORM)

    def _decoder_block(self) -> DecoderBlock:
        own, source = self._attention(self.decoder_positions), self._attention(None)
        return DecoderBlock(own, source, self._feed(), residual=PreNorm, dropout=self.config.dropout, norm=NORM)

    def _start(self) -> None:
        """Embeddings N(0, 1); each matrix N(0, 1/width of what it reads), as T5's code does."""
        nn.init.normal_(self.embed.weight)
        for module in self.modules():
            if isinstance(module, (nn.Linear, PackedLinear)):
                nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
