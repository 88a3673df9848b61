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

from regard.attention.token_positions import Grid, Places
from regard.config.validation import positive
from regard.layers import Pool
from regard.models.classifier_output import Classified
from regard.models.image_encoder import Sight


@dataclass(frozen=True)
class Config:
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
        positive("attention", dim=self.dim, heads=self.heads, classes=classes)
        return ImageClassifier(classes, self, features)


class ImageClassifier(nn.Module):
    def __init__(self, classes: int, config: Config, features: int | None = None):
        super().__init__()
        self.config = c = config
        self.sight = Sight(
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
        self.pool = Pool(c.dim)
        self.head = nn.Linear(c.dim, classes)

    def forward(self, pictures: Tensor) -> Classified:
        """(b, height, width, 3) to logits (b, classes)."""
        grid = self.sight(pictures)
        places = Places(range(1), Grid(*grid.shape[1:3]), rows="hops", columns="grid")
        read, _ = self.pool(grid.flatten(1, 2), places=places)
        return Classified(self.head(read[:, 0]))
