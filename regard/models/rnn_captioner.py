"""The recurrent captioner with attention to the image (Xu et al. 2015, Show, Attend and Tell).

    α[x, y] = softmax over (x, y) of  h[t-1] W^key M[x, y]        V = Σ α[x, y] M[x, y]
    h[t] = CELL(h[t-1], V, e[w_t])                                h[-1] = tanh(W mean(M))
    P(w_{t+1}) = softmax over w of  e[w] · o[t] + b[w]            o[t] = tanh(W_o [h[t]; V; e[w_t]])

    M: `image_encoder`    W: `first_state`    CELL, W^key, W_o: `decoder`    e: `embed`, also the head    b: `bias`

The attention from h[t-1] enters h[t], so it explains the token predicted from h[t], which is w_{t+1}: row t of the
recorded attention belongs to the token after w_t. Differences from the paper: any mechanism, bilinear by default (the
paper's is additive); a small backbone that is trained together with the decoder; the gate β is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.token_positions import Grid
from regard.config import specs
from regard.config.validation import check_positive
from regard.errors import UserError
from regard.layers import MultiHeadAttention
from regard.layers.cost_formulas import PartCosts
from regard.layers.dropout import Dropout
from regard.models.configured_model import ModelConfig
from regard.models.image_encoder import ImageEncoder
from regard.models.rnn_decoders import STEP_CELLS, InputFeedingDecoder, State
from regard.models.rnn_translator import RecurrentDecoderModel


@dataclass(frozen=True)
class RNNCaptionerConfig(ModelConfig):
    """Options of the recurrent captioner.

    Attributes:
        channels: Channels of each stage of the convolutional backbone; a stage halves the image.
        blocks: Residual blocks in each stage after the first.
        layers: Layers of spatial self-attention after the backbone.
        dim: Width of the tokens and of the grid.
        hidden: Width of the decoder's state.
        cell: "gru" or "lstm".
        mechanism: Mechanism of the attention to the image.
        image_mechanism: Mechanism of the spatial self-attention.
        positions: Positions of the grid.
    """

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


class RNNCaptioner(RecurrentDecoderModel[RNNCaptionerConfig]):
    """Image encoder and recurrent decoder with input feeding.

    Args:
        vocab_size: Size of the vocabulary.
        feature_dim: Width of image features that are given in place of images; None for images.
        config: The options; or pass fields of `RNNCaptionerConfig` as keywords.
    """

    config_class = RNNCaptionerConfig

    def __init__(
        self,
        vocab_size: int,
        feature_dim: int | None = None,
        config: RNNCaptionerConfig | None = None,
        **options: Any,
    ):
        super().__init__(config, options)
        c = self.config
        check_positive("rnn", dim=c.dim, hidden=c.hidden, heads=c.heads)
        specs.find_choice("cell", c.cell, STEP_CELLS)
        self.embed = nn.Embedding(vocab_size, c.dim)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.dropout = Dropout(c.dropout)
        self.image_encoder = ImageEncoder(
            c.channels,
            c.dim,
            blocks=c.blocks,
            layers=c.layers,
            mechanism=c.image_mechanism,
            positions=c.positions,
            dropout=c.dropout,
            feature_dim=feature_dim,
        )
        attention = MultiHeadAttention(c.hidden, c.heads, c.mechanism, context_dim=c.dim, output_proj=False)
        if not attention.mechanism.supports_cross_attention:
            raise UserError(
                f"mechanism {c.mechanism!r} does not support cross-attention to an image; use bilinear, additive or dot"
            )
        self.first_state = nn.Linear(c.dim, c.hidden)
        self.decoder = InputFeedingDecoder(c.dim, attention, c.cell, 1, c.dropout)
        nn.init.normal_(self.embed.weight, std=c.dim**-0.5)

    def forward(self, images: Tensor, target: Tensor, *, logits_at: Tensor | None = None) -> Tensor:
        """Logits of the token after each caption token.

        Args:
            images: (b, height, width, 3), or features (b, rows, columns, feature_dim).
            target: Caption tokens from [BOS] on, (b · captions, n), with the same number of captions for each image.
            logits_at: Flat indices (k,) of the caption positions whose logits are wanted.

        Returns:
            Logits (b · captions, n, vocab), or (k, vocab) with `logits_at`.
        """
        source, state = self.project_source(self.encode(images))
        num_captions = len(target) // len(images)
        state = tuple(part.repeat_interleave(num_captions, 1) for part in state)
        return self.decode(target, source, state, logits_at=logits_at)

    def encode(self, images: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Images to a grid of vectors (b, rows, columns, dim)."""
        return self.image_encoder(images)

    def project_source(self, grid: Tensor, *, mask: Tensor | None = None) -> tuple[KVCache, State]:
        """Keys and values of the image, computed once for all steps, and the decoder's initial state."""
        h = torch.tanh(self.first_state(grid.mean((1, 2))))[None]
        state = (h, torch.zeros_like(h)) if self.config.cell == "lstm" else (h,)
        position_ids = Grid(*grid.shape[1:3])
        return self.decoder.attention.project_kv(grid.flatten(1, 2), position_ids=position_ids), state

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield from self.image_encoder.cost_parts(m)
        yield from self.decoder_costs(n, m)
