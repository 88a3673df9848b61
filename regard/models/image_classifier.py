"""An image classifier with spatial self-attention (Vaswani et al. 2017 over a grid, as in Parmar et al. 2018, Image
Transformer; a convolutional stem as in Xiao et al. 2021, Early Convolutions Help Transformers See Better).

    M = backbone(image) + PE(y, x)        M = block_l(M)        class = softmax(W_c pool(LN(M)) + b_c)

Queries, keys and values are indexed by (y, x). Any mechanism that supports self-attention works: dot, local-2d
(neighbours only, at linear cost), and any positions: axial, relative-2d. One-dimensional positions (relative, rotary,
t5, alibi) read the image row after row. The attention pooling is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.config.validation import check_positive
from regard.layers import AttentionPooling
from regard.layers.cost_formulas import PartCosts, linear_cost, pooling_cost
from regard.models.classifier_output import ClassifierOutput
from regard.models.configured_model import ConfiguredModel, ModelConfig
from regard.models.image_encoder import ImageEncoder


@dataclass(frozen=True)
class ImageClassifierConfig(ModelConfig):
    """Options of the image classifier.

    Attributes:
        channels: Channels of each stage of the convolutional backbone; a stage halves the image.
        blocks: Residual blocks in each stage after the first.
        layers: Layers of spatial self-attention after the backbone.
    """

    channels: tuple[int, ...] = (32, 64)
    blocks: int = 1
    dim: int = 64
    layers: int = 2
    heads: int = 4
    mechanism: str = "dot"
    positions: str = "axial"
    dropout: float = 0.1


class ImageClassifier(ConfiguredModel[ImageClassifierConfig]):
    """Image encoder, attention pooling and a linear head.

    Args:
        num_classes: Number of classes.
        feature_dim: Width of image features that are given in place of images; None for images.
        config: The options; or pass fields of `ImageClassifierConfig` as keywords.
    """

    config_class = ImageClassifierConfig

    def __init__(
        self,
        num_classes: int,
        feature_dim: int | None = None,
        config: ImageClassifierConfig | None = None,
        **options: Any,
    ):
        super().__init__(config, options)
        c = self.config
        check_positive("attention", dim=c.dim, heads=c.heads, num_classes=num_classes)
        self.image_encoder = ImageEncoder(
            c.channels,
            c.dim,
            blocks=c.blocks,
            layers=c.layers,
            heads=c.heads,
            mechanism=c.mechanism,
            positions=c.positions,
            dropout=c.dropout,
            feature_dim=feature_dim,
        )
        self.pool = AttentionPooling(c.dim)
        self.head = nn.Linear(c.dim, num_classes)

    def forward(self, images: Tensor) -> ClassifierOutput:
        """Images (b, height, width, 3), or features (b, rows, columns, feature_dim), to logits (b, classes)."""
        grid = self.image_encoder(images)
        qk_positions = QueryKeyPositions(range(1), Grid(*grid.shape[1:3]), query_axis="hops", key_axis="grid")
        pooled, _ = self.pool(grid.flatten(1, 2), None, qk_positions)
        return ClassifierOutput(self.head(pooled[:, 0]))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield from self.image_encoder.cost_parts(n)
        yield pooling_cost("pool", self.pool, n)
        yield linear_cost("head", self.head, 1)
