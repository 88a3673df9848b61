"""The Transformer (Vaswani et al. 2017, Attention Is All You Need, figure 1).

    encoder:  x = sqrt(dim) E[source] + P        x = block_l(x)
    decoder:  y = sqrt(dim) E[target] + P        y = block_l(y, x), causal        P(w_{t+1}) = softmax(E y[t] + b)

    E: `embed`, one matrix for both sides and the head (3.4)    P: `positions` (3.5)    b: `bias`

Differs from the paper: any mechanism and positions; the head has a bias; `norm="pre"` puts the norms before each part
and once at the end of each stack, which trains without a careful warm-up. A mechanism that cannot regard another
sequence is used within each side, and the dot product between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import positions
from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.masks import Mask
from regard.attention.mechanisms import MECHANISMS
from regard.attention.positions import PositionEncoding
from regard.attention.token_positions import PositionIds
from regard.config import specs
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, PostNorm, PreNorm
from regard.layers.dropout import Dropout
from regard.layers.transformer_blocks import decoder_step
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import pick

RESIDUALS = {"pre": PreNorm, "post": PostNorm}
LAST_NORMS = {"pre": nn.LayerNorm, "post": nn.Identity}


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes that a CPU trains; `BASE` is the paper's base model. `decoder_layers` is as many as `layers` where it is
    not given."""

    vocab: int = 8000
    dim: int = 256
    hidden: int = 1024
    layers: int = 3
    decoder_layers: int | None = None
    heads: int = 4
    mechanism: str = "dot"
    positions: str = "sinusoidal"
    norm: str = "post"
    dropout: float = 0.1

    def build(self, vocab: int) -> Transformer:
        return Transformer(replace(self, vocab=vocab))


BASE = TransformerConfig(vocab=37_000, dim=512, hidden=2048, layers=6, heads=8)


class Transformer(nn.Module):
    config_class = TransformerConfig

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = c = config
        self.residual = specs.find("norm", c.norm, RESIDUALS)
        self.scale = c.dim**0.5
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.bias = nn.Parameter(torch.zeros(c.vocab))
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.dropout = Dropout(c.dropout)
        self.encoder = TypedModuleList[EncoderBlock](self._encoder_block() for _ in range(c.layers))
        self.decoder = TypedModuleList[DecoderBlock](self._decoder_block() for _ in range(c.decoder_layers or c.layers))
        self.encoder_norm, self.decoder_norm = LAST_NORMS[c.norm](c.dim), LAST_NORMS[c.norm](c.dim)
        self._start()

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """source (b, m), target (b, n) to logits of the next target word (b, n, vocab), or (k, vocab) of some places
        only, counted through all rows. Masks: True for what is real."""
        read = self.read(self.encode(source, mask=source_mask), mask=source_mask)
        return self.decode(target, read, mask=target_mask, places=places)

    def encode(self, ids: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """What is known at each place of the source, (b, m, dim)."""
        x = self._embed(ids, range(ids.shape[1]))
        for layer in self.encoder:
            x = layer(x, mask=mask)
        return self.encoder_norm(x)

    def read(self, states: Tensor, *, mask: Tensor | None = None) -> list[KVCache]:
        """The source as each decoder layer regards it: read once, for all steps."""
        return [layer.cross_attention.project_kv(states, mask=mask) for layer in self.decoder]

    def decode(
        self,
        ids: Tensor,
        source: list[KVCache],
        *,
        mask: Mask | Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """All target places at once, (b, n) to (b, n, vocab)."""
        x = self._embed(ids, range(ids.shape[1]))
        for layer, memory in zip(self.decoder, source, strict=True):
            x = layer(x, memory, mask=mask)
        return self.head(self.decoder_norm(pick(x, places)))

    def step(self, ids: Tensor, past: list[KVCache] | None, source: list[KVCache]) -> tuple[Tensor, list[KVCache]]:
        """The next target words (b, new) to logits, and the memories to go on from, one per layer."""
        position_ids = next_position_ids(past[0] if past else None, ids.shape[1])
        x, kept = decoder_step(self.decoder, self._embed(ids, position_ids), past, source, position_ids)
        return self.head(self.decoder_norm(x)), kept

    def head(self, states: Tensor) -> Tensor:
        return F.linear(states, self.embed.weight, self.bias)

    def _embed(self, ids: Tensor, position_ids: PositionIds) -> Tensor:
        return self.dropout(self.positions.embed(self.scale * self.embed(ids), position_ids))

    def _attention(self, mechanism: str, place: PositionEncoding | None) -> MultiHeadAttention:
        return MultiHeadAttention(self.config.dim, self.config.heads, mechanism, positions=place)

    def _feed(self) -> FeedForward:
        return FeedForward(self.config.dim, self.config.hidden, activation=F.relu)

    def _encoder_block(self) -> EncoderBlock:
        c, inside = self.config, self.positions if self.positions.inside else None
        own = self._attention(c.mechanism, inside)
        return EncoderBlock(own, self._feed(), residual=self.residual, dropout=c.dropout)

    def _decoder_block(self) -> DecoderBlock:
        c, inside = self.config, self.positions if self.positions.inside else None
        crosses = specs.find("mechanism", specs.parse(c.mechanism)[0], MECHANISMS).supports_cross_attention
        own, source = self._attention(c.mechanism, inside), self._attention(c.mechanism if crosses else "dot", None)
        return DecoderBlock(own, source, self._feed(), residual=self.residual, dropout=c.dropout)

    def _start(self) -> None:
        """Embeddings of length about one before they are scaled up; Xavier for the rest, as tensor2tensor does."""
        nn.init.normal_(self.embed.weight, std=self.config.dim**-0.5)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear) and ".mechanism." not in name:
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
