"""Projection of precomputed image features, instead of a trained backbone: LayerNorm and a matrix for each grid cell.

M[y, x] = W LN(features[y, x]) + b
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.errors import UserError


class FeatureProjection(nn.Module):
    """LayerNorm and a linear layer for each grid cell.

    Args:
        feature_dim: Width of the features.
        dim: Width of the output.
    """

    def __init__(self, feature_dim: int, dim: int):
        super().__init__()
        check_positive("feature projection", feature_dim=feature_dim, dim=dim)
        self.feature_dim = feature_dim
        self.norm = nn.LayerNorm(feature_dim)
        self.out = nn.Linear(feature_dim, dim)

    def forward(self, features: Tensor) -> Tensor:
        """(b, rows, columns, feature_dim) to (b, rows, columns, dim)."""
        if features.dim() != 4 or features.shape[-1] != self.feature_dim:
            raise UserError(
                f"features must have shape (batch, rows, columns, {self.feature_dim}), as in training; given "
                f"{tuple(features.shape)}"
            )
        return self.out(self.norm(features.to(self.out.weight.dtype)))
