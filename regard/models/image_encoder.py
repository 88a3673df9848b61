"""The image encoder of captioners and image classifiers: an image to a grid of vectors with positions.

    M = backbone(image) + PE(y, x)        M = block_l(M), `layers` of spatial self-attention

Queries, keys and values of the blocks are indexed by (y, x). They take any mechanism (local-2d: neighbours only, at
linear cost) and any positions (axial; relative-2d, by rows and columns). Features of images that were computed
elsewhere take the place of the backbone's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from regard.attention import positions as position_encodings
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.conv_backbone import ConvBackbone
from regard.layers.cost_formulas import PartCosts, encoder_block_costs, linear_cost, matmul_cost, params_cost
from regard.layers.dropout import Dropout
from regard.layers.feature_projection import FeatureProjection
from regard.layers.typed_module_list import TypedModuleList


class ImageEncoder(nn.Module):
    """Convolutional backbone, positions and spatial self-attention.

    Args:
        channels: Channels of each stage of the backbone; a stage halves the image.
        dim: Width of the grid's vectors.
        blocks: Residual blocks in each stage after the first.
        layers: Layers of spatial self-attention.
        feature_dim: Width of image features that are given in place of images; None for images.
    """

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
        feature_dim: int | None = None,
    ):
        super().__init__()
        self.backbone = (
            ConvBackbone(channels, dim, blocks=blocks) if feature_dim is None else FeatureProjection(feature_dim, dim)
        )
        self.positions = position_encodings.build(positions, dim, heads)
        if self.positions.in_attention is not None and not layers:
            raise UserError(
                f"positions {positions!r} act in spatial self-attention, and there is none (layers = 0). Use positions "
                "axial, or set layers to 1 or more"
            )
        self.layers = TypedModuleList[EncoderBlock](
            EncoderBlock(
                MultiHeadAttention(dim, heads, mechanism, positions=self.positions.in_attention),
                FeedForward(dim, 2 * dim),
                residual=PreNorm,
                dropout=dropout,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def forward(self, images: Tensor) -> Tensor:
        """Images (b, height, width, 3), or features (b, rows, columns, feature_dim), to (b, rows, columns, dim)."""
        features = self.backbone(images)
        grid = Grid(*features.shape[1:3])
        x = self.positions.embed(features.flatten(1, 2), grid)
        for layer in self.layers:
            x = layer(x, position_ids=grid)
        return self.dropout(self.norm(x)).unflatten(1, features.shape[1:3])

    def cost_parts(self, m: int) -> PartCosts:
        """The cost by formula of an image with a grid of m cells in one row.

        A square of as many cells takes the same number of products.
        """
        assert isinstance(self.backbone, ConvBackbone)
        cells = m * self.backbone.downsampling**2
        for i, stage in enumerate(self.backbone.stages):
            cells //= 4
            for j, block in enumerate(stage):  # type: ignore[arg-type]
                out_features, in_features = block.weight.shape  # in_features: 9 or 16 · channels
                cost = matmul_cost(f"backbone.{i}.{j}", cells, in_features, out_features, block.weight.numel())
                is_first = (i, j) == (0, 0)  # the image gets no gradient
                yield replace(cost, backward=cost.flops if is_first else cost.backward)
                yield params_cost(f"backbone.{i}.{j}.norm", block.norm)
        yield linear_cost("backbone.out", self.backbone.out, m)
        yield params_cost("grid positions", self.positions)
        for i, block in enumerate(self.layers):
            yield from encoder_block_costs(f"grid.{i}", block, m)
        yield params_cost("grid.norm", self.norm)
