"""A Transformer captioner: the decoder of Vaswani et al. 2017 (figure 1, right) over the grid of an image.

    y = sqrt(dim) E[w] + P        y = block_l(y, M), causal        P(w_{t+1}) = softmax(E y[t] + b)

    M: `image_encoder`    E: `embed`, also the head    P: `positions` of the tokens    b: `bias`

All tokens are processed at once. Row t of the attention to the image belongs to the token predicted after w_t, as in
the recurrent captioner. There is a norm before each sublayer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import positions
from regard.attention.kv_cache import KVCache
from regard.attention.token_positions import Grid
from regard.layers import DecoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.cost_formulas import PartCosts
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.configured_model import ModelConfig
from regard.models.encoder_decoder import TransformerDecoder
from regard.models.image_encoder import ImageEncoder
from regard.models.transformer import cross_attention_mechanism


@dataclass(frozen=True)
class TransformerCaptionerConfig(ModelConfig):
    """Options of the Transformer captioner.

    Attributes:
        channels: Channels of each stage of the convolutional backbone; a stage halves the image.
        blocks: Residual blocks in each stage after the first.
        layers: Layers of spatial self-attention after the backbone.
        hidden: Width of the decoder's feed-forward network.
        image_mechanism: Mechanism of the spatial self-attention.
        image_positions: Its positions.
    """

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


class TransformerCaptioner(TransformerDecoder[TransformerCaptionerConfig]):
    """Image encoder and Transformer decoder.

    Args:
        vocab_size: Size of the vocabulary.
        feature_dim: Width of image features that are given in place of images; None for images.
        config: The options; or pass fields of `TransformerCaptionerConfig` as keywords.
    """

    config_class = TransformerCaptionerConfig

    def __init__(
        self,
        vocab_size: int,
        feature_dim: int | None = None,
        config: TransformerCaptionerConfig | None = None,
        **options: Any,
    ):
        super().__init__(config, options)
        c = self.config
        self.scale = c.dim**0.5
        self.embed = nn.Embedding(vocab_size, c.dim)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.dropout = Dropout(c.dropout)
        self.image_encoder = ImageEncoder(
            c.channels,
            c.dim,
            blocks=c.blocks,
            layers=c.layers,
            heads=c.heads,
            mechanism=c.image_mechanism,
            positions=c.image_positions,
            dropout=c.dropout,
            feature_dim=feature_dim,
        )
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.decoder = TypedModuleList[DecoderBlock](
            DecoderBlock(
                MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=self.positions.in_attention),
                MultiHeadAttention(c.dim, c.heads, cross_attention_mechanism(c.mechanism)),
                FeedForward(c.dim, c.hidden),
                residual=PreNorm,
                dropout=c.dropout,
            )
            for _ in range(c.decoder_layers)
        )
        self.decoder_norm = nn.LayerNorm(c.dim)
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
        source, num_captions = self.project_source(self.encode(images)), len(target) // len(images)
        if num_captions > 1:
            rows = torch.arange(len(images), device=target.device).repeat_interleave(num_captions)
            source = [cache.select(rows) for cache in source]
        return self.decode(target, source, logits_at=logits_at)

    def encode(self, images: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Images to a grid of vectors (b, rows, columns, dim)."""
        return self.image_encoder(images)

    def project_source(self, grid: Tensor, *, mask: Tensor | None = None) -> list[KVCache]:
        """Keys and values of the image for each layer, computed once for all steps."""
        position_ids, cells = Grid(*grid.shape[1:3]), grid.flatten(1, 2)
        return [layer.cross_attention.project_kv(cells, position_ids=position_ids) for layer in self.decoder]

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield from self.embedding_costs()
        yield from self.image_encoder.cost_parts(m)
        yield from self.decoder_costs(n, m)
