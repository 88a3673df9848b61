"""The recurrent captioner that shows where it looks (Xu et al. 2015, Show, Attend and Tell).

    α[x, y] = softmax over (x, y) of  h[t-1] W^key M[x, y]        V = Σ α[x, y] M[x, y]
    h[t] = CELL(h[t-1], V, e[w_t])                                h[-1] = tanh(W mean(M))
    P(w_{t+1}) = softmax over w of  e[w] · o[t] + b[w]            o[t] = tanh(W_o [h[t]; V; e[w_t]])

    M: `image_encoder`    W: `first`    CELL, W^key, W_o: `decoder`, rnn_decoders.Fed    e: `embed`, also the head    b: `bias`

The map made from h[t-1] enters h[t], and so it explains the word predicted from h[t], which is w_{t+1}: row t of what
is recorded belongs to the word that is said after w_t. Differs from the paper: any score by name, the bilinear one by
default (the paper's is additive); a small net for the pictures, trained along; the gate β is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.token_positions import Grid
from regard.config import specs
from regard.config.validation import check_positive
from regard.errors import UserError
from regard.layers import MultiHeadAttention
from regard.layers.dropout import Dropout
from regard.models.classifier_output import pick
from regard.models.image_encoder import ImageEncoder
from regard.models.rnn_decoders import ONE, Fed, State


@dataclass(frozen=True)
class RNNCaptionerConfig:
    """`channels` of each stage of the eye, which halves the picture; `layers` of spatial self-attention after it, by
    `image_mechanism` (a mechanism) with `positions`; `dim` is the width of words and of the grid, `hidden` that of the state."""

    channels: tuple[int, ...] = (32, 64, 128)
    blocks: int = 1
    layers: int = 0
    dim: int = 128
    hidden: int = 256
    heads: int = 1
    cell: str = "gru"
    mechanism: str = "bilinear:values=false"
    image_mechanism: str = "dot"
    positions: str = "axial"
    dropout: float = 0.3

    def build(self, vocab: int, features: int | None = None) -> RNNCaptioner:
        """`features` is the width of features that are given in place of pictures."""
        check_positive("rnn", dim=self.dim, hidden=self.hidden, heads=self.heads)
        specs.find("cell", self.cell, ONE)
        return RNNCaptioner(vocab, self, features)


class RNNCaptioner(nn.Module):
    config_class = RNNCaptionerConfig

    def __init__(self, vocab: int, config: RNNCaptionerConfig, features: int | None = None):
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(vocab, c.dim)
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.dropout = Dropout(c.dropout)
        look = {"blocks": c.blocks, "layers": c.layers, "positions": c.positions, "dropout": c.dropout}
        look["mechanism"] = c.image_mechanism
        self.image_encoder = ImageEncoder(c.channels, c.dim, features=features, **look)
        attention = MultiHeadAttention(c.hidden, c.heads, c.mechanism, context_dim=c.dim, output=False)
        if not attention.mechanism.supports_cross_attention:
            raise UserError(f"mechanism {c.mechanism!r} cannot look at a picture; bilinear, additive and dot can")
        self.first = nn.Linear(c.dim, c.hidden)
        self.decoder = Fed(c.dim, attention, c.cell, 1, c.dropout)
        nn.init.normal_(self.embed.weight, std=c.dim**-0.5)

    def forward(self, pictures: Tensor, target: Tensor, *, places: Tensor | None = None) -> Tensor:
        """pictures (b, height, width, 3), target (b · w, n) of w captions each, from [BOS] on, to logits of the next
        word (b · w, n, vocab), or (k, vocab) of some places only, counted through all rows."""
        memory, start = self.read(self.encode(pictures))
        several = len(target) // len(pictures)
        start = tuple(part.repeat_interleave(several, 1) for part in start)
        return self.decode(target, memory, start, places=places)

    def encode(self, pictures: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """M (b, rows, columns, dim)."""
        return self.image_encoder(pictures)

    def read(self, grid: Tensor, *, mask: Tensor | None = None) -> tuple[KVCache, State]:
        """The picture as the decoder regards it, and the state it starts in."""
        h = torch.tanh(self.first(grid.mean((1, 2))))[None]
        start = (h, torch.zeros_like(h)) if self.config.cell == "lstm" else (h,)
        return self.decoder.attention.project_kv(grid.flatten(1, 2), position_ids=Grid(*grid.shape[1:3])), start

    def decode(self, ids: Tensor, source: KVCache, start: State, *, places: Tensor | None = None) -> Tensor:
        return self.head(pick(self.decoder(self.dropout(self.embed(ids)), source, start)[0], places))

    def step(self, ids: Tensor, source: KVCache, state: State, at: int) -> tuple[Tensor, State]:
        """The next word of each caption (b,), the one numbered `at`, to logits (b, vocab) and the state after it."""
        said, state = self.decoder.step(self.embed(ids), source, state, at)
        return self.head(said), state

    def head(self, said: Tensor) -> Tensor:
        return F.linear(said, self.embed.weight, self.bias)
