"""A Transformer that captions: the decoder of Vaswani et al. 2017 (figure 1, right) over the grid of a picture.

    y = sqrt(dim) E[w] + P        y = block_l(y, M), causal        P(w_{t+1}) = softmax(E y[t] + b)

    M: `image_encoder`    E: `embed`, also the head    P: `positions` of the words    b: `bias`

All words are read at once. Row t of the attention to the picture belongs to the word said after w_t, as in the
recurrent captioner. Norms stand before each part.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import positions
from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.mechanisms import MECHANISMS
from regard.attention.token_positions import PositionIds, Grid
from regard.config import specs
from regard.layers import DecoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.dropout import Dropout
from regard.layers.transformer_blocks import decoder_step
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import pick
from regard.models.image_encoder import ImageEncoder


@dataclass(frozen=True)
class TransformerCaptionerConfig:
    """`channels` of each stage of the eye, which halves the picture; `layers` of spatial self-attention after it, by
    `image_mechanism` (a mechanism) with `image_positions`; `decoder_layers` over the words."""

    channels: tuple[int, ...] = (32, 64, 128)
    blocks: int = 1
    layers: int = 0
    dim: int = 128
    hidden: int = 512
    decoder_layers: int = 2
    heads: int = 4
    mechanism: str = "dot"
    positions: str = "sinusoidal"
    image_mechanism: str = "dot"
    image_positions: str = "axial"
    dropout: float = 0.3

    def build(self, vocab: int, features: int | None = None) -> TransformerCaptioner:
        """`features` is the width of features that are given in place of pictures."""
        return TransformerCaptioner(vocab, self, features)


class TransformerCaptioner(nn.Module):
    config_class = TransformerCaptionerConfig

    def __init__(self, vocab: int, config: TransformerCaptionerConfig, features: int | None = None):
        super().__init__()
        self.config = c = config
        self.scale = c.dim**0.5
        self.embed = nn.Embedding(vocab, c.dim)
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.dropout = Dropout(c.dropout)
        look = {"blocks": c.blocks, "layers": c.layers, "heads": c.heads, "dropout": c.dropout}
        look |= {"mechanism": c.image_mechanism, "positions": c.image_positions}
        self.image_encoder = ImageEncoder(c.channels, c.dim, features=features, **look)
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.decoder = TypedModuleList[DecoderBlock](self._block() for _ in range(c.decoder_layers))
        self.decoder_norm = nn.LayerNorm(c.dim)
        nn.init.normal_(self.embed.weight, std=c.dim**-0.5)

    def forward(self, pictures: Tensor, target: Tensor, *, places: Tensor | None = None) -> Tensor:
        """pictures (b, height, width, 3), target (b · w, n) of w captions each, from [BOS] on, to logits of the next
        word (b · w, n, vocab), or (k, vocab) of some places only, counted through all rows."""
        several = len(target) // len(pictures)
        rows = torch.arange(len(pictures), device=target.device).repeat_interleave(several)
        memories = self.read(self.encode(pictures))
        return self.decode(target, [m.select(rows) for m in memories] if several > 1 else memories, places=places)

    def encode(self, pictures: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """M (b, rows, columns, dim)."""
        return self.image_encoder(pictures)

    def read(self, grid: Tensor, *, mask: Tensor | None = None) -> list[KVCache]:
        """The picture as each layer regards it: read once, for all steps."""
        position_ids = Grid(*grid.shape[1:3])
        return [layer.cross_attention.project_kv(grid.flatten(1, 2), position_ids=position_ids) for layer in self.decoder]

    def decode(self, ids: Tensor, source: list[KVCache], *, places: Tensor | None = None) -> Tensor:
        x = self._embed(ids, range(ids.shape[1]))
        for layer, memory in zip(self.decoder, source, strict=True):
            x = layer(x, memory)
        return self.head(self.decoder_norm(pick(x, places)))

    def step(self, ids: Tensor, past: list[KVCache] | None, source: list[KVCache]) -> tuple[Tensor, list[KVCache]]:
        """The next words (b, new) to logits, and the memories to go on from, one per layer."""
        position_ids = next_position_ids(past[0] if past else None, ids.shape[1])
        x, kept = decoder_step(self.decoder, self._embed(ids, position_ids), past, source, position_ids)
        return self.head(self.decoder_norm(x)), kept

    def head(self, states: Tensor) -> Tensor:
        return F.linear(states, self.embed.weight, self.bias)

    def _embed(self, ids: Tensor, position_ids: PositionIds) -> Tensor:
        return self.dropout(self.positions.embed(self.scale * self.embed(ids), position_ids))

    def _block(self) -> DecoderBlock:
        c, inside = self.config, self.positions if self.positions.inside else None
        crosses = specs.find("mechanism", specs.parse(c.mechanism)[0], MECHANISMS).supports_cross_attention
        return DecoderBlock(
            MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=inside),
            MultiHeadAttention(c.dim, c.heads, c.mechanism if crosses else "dot"),
            FeedForward(c.dim, c.hidden),
            residual=PreNorm,
            dropout=c.dropout,
        )
