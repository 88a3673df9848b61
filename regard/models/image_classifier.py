"""Spatial self-attention that names what a picture shows (Vaswani et al. 2017 over a grid, as in Parmar et al. 2018,
Image Transformer; a convolutional stem as in Xiao et al. 2021, Early Convolutions Help Transformers See Better).

    M = eye(picture) + PE(y, x)        M = block_l(M)        class = softmax(W_c pool(LN(M)) + b_c)

Query, key and value are indexed by (y, x). Any mechanism that regards its own sequence: dot, local-2d (neighbours,
in linear cost); any positions: axial, relative-2d. What knows one dimension only (relative, rotary, t5, alibi) takes a
picture row after row. Pooled by attention, which is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.config.validation import check_positive
from regard.layers import AttentionPooling
from regard.models.classifier_output import ClassifierOutput
from regard.models.image_encoder import ImageEncoder


@dataclass(frozen=True)
class ImageClassifierConfig:
    """`channels` of each stage of the eye, which halves the picture; `layers` of spatial self-attention after it."""

    channels: tuple[int, ...] = (32, 64)
    blocks: int = 1
    dim: int = 64
    layers: int = 2
    heads: int = 4
    mechanism: str = "dot"
    positions: str = "axial"
    dropout: float = 0.1

    def build(self, classes: int, features: int | None = None) -> ImageClassifier:
        """`features` is the width of features that are given in place of pictures."""
        check_positive("attention", dim=self.dim, heads=self.heads, classes=classes)
        return ImageClassifier(classes, self, features)


class ImageClassifier(nn.Module):
    config_class = ImageClassifierConfig

    def __init__(self, classes: int, config: ImageClassifierConfig, features: int | None = None):
        super().__init__()
        self.config = c = config
        self.image_encoder = ImageEncoder(
            c.channels,
            c.dim,
            blocks=c.blocks,
            layers=c.layers,
            heads=c.heads,
            mechanism=c.mechanism,
            positions=c.positions,
            dropout=c.dropout,
            features=features,
        )
        self.pool = AttentionPooling(c.dim)
        self.head = nn.Linear(c.dim, classes)

    def forward(self, pictures: Tensor) -> ClassifierOutput:
        """(b, height, width, 3) to logits (b, classes)."""
        grid = self.image_encoder(pictures)
        places = QueryKeyPositions(range(1), Grid(*grid.shape[1:3]), query_axis="hops", key_axis="grid")
        read, _ = self.pool(grid.flatten(1, 2), qk_positions=places)
        return ClassifierOutput(self.head(read[:, 0]))
