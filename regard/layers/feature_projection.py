"""The place of an eye where features of pictures are given: each vector of the grid is normed and brought to a width.

M[y, x] = W LN(features[y, x]) + b
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.errors import UserError


class FeatureProjection(nn.Module):
    def __init__(self, width: int, dim: int):
        super().__init__()
        check_positive("given features", width=width, dim=dim)
        self.width = width
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, dim)

    def forward(self, features: Tensor) -> Tensor:
        """(b, rows, columns, width) to (b, rows, columns, dim)."""
        if features.dim() != 4 or features.shape[-1] != self.width:
            raise UserError(
                f"features are (batch, rows, columns, {self.width}), as in training; given {tuple(features.shape)}"
            )
        return self.out(self.norm(features.to(self.out.weight.dtype)))
