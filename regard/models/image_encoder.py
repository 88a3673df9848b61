"""What looking at a picture gives: a grid of vectors that know where they stand.

    M = eye(picture) + PE(y, x)        M = block_l(M), `layers` of spatial self-attention

Query, key and value of the blocks are indexed by (y, x), with any mechanism (local-2d: neighbours only, in linear cost)
and any positions (axial; relative-2d, by rows and columns). What captioners and image classifiers have in common. Where
features of pictures are given, of a width, they stand in place of what the eye sees.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from regard.attention import positions as places
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.conv_backbone import ConvBackbone
from regard.layers.dropout import Dropout
from regard.layers.feature_projection import FeatureProjection
from regard.layers.typed_module_list import TypedModuleList


class ImageEncoder(nn.Module):
    def __init__(
        self,
        channels: Sequence[int],
        dim: int,
        *,
        blocks: int = 1,
        layers: int = 0,
        heads: int = 4,
        mechanism: str = "dot",
        positions: str = "axial",
        dropout: float = 0.0,
        features: int | None = None,
    ):
        super().__init__()
        self.backbone = ConvBackbone(channels, dim, blocks=blocks) if features is None else FeatureProjection(features, dim)
        self.positions = places.build(positions, dim, heads)
        inside = self.positions if self.positions.inside else None
        if inside is not None and not layers:
            raise UserError(
                f"positions {positions!r} act inside spatial self-attention, of which there is none (layers = 0); take "
                "axial, or layers of 1 or more"
            )
        self.layers = TypedModuleList[EncoderBlock](
            EncoderBlock(
                MultiHeadAttention(dim, heads, mechanism, positions=inside),
                FeedForward(dim, 2 * dim),
                residual=PreNorm,
                dropout=dropout,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def forward(self, pictures: Tensor) -> Tensor:
        """(b, height, width, 3), or features (b, rows, columns, width), to (b, rows, columns, dim)."""
        seen = self.backbone(pictures)
        grid = Grid(*seen.shape[1:3])
        x = self.positions.embed(seen.flatten(1, 2), grid)
        for layer in self.layers:
            x = layer(x, position_ids=grid)
        return self.dropout(self.norm(x)).unflatten(1, seen.shape[1:3])
