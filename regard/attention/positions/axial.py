"""Axial positions in two dimensions (Parmar et al. 2018, section 3.1): half of the width encodes the row, half the
column.

    PE(y, x) = [P_row(y); P_column(x)]

Each half is sinusoidal, so images of any size can be read, or with learned=True a trained table of `length` rows and as
many columns. A sequence is an image of height 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.lookup import check_range, select_rows
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.sinusoidal import sinusoidal_table
from regard.attention.token_positions import Grid, PositionIds, position_tensor
from regard.config.validation import check_positive
from regard.errors import UserError


class Axial(PositionEncoding):
    """Row and column encodings, concatenated and added to the embeddings.

    Args:
        dim: Width of the model. 4 must divide it, or 2 with learned=True.
        heads: Number of heads.
        learned: Use trained tables instead of sinusoids.
        length: Rows of each trained table.
        base: Base of the sinusoidal frequencies.
    """

    name, title, kind = "axial", "axial 2-D (Parmar 2018)", "embed"

    def __init__(self, dim: int, heads: int, *, learned: bool = False, length: int = 64, base: float = 10_000.0):
        super().__init__(dim, heads)
        divisor = 2 if learned else 4  # sinusoidal halves consist of pairs of sine and cosine
        if dim % divisor:
            raise UserError(f"axial positions need a width that is divisible by {divisor}; given dim={dim}")
        check_positive("axial positions", length=length)
        self.base = base
        self.tables = nn.Parameter(torch.randn(2, length, dim // 2) * 0.02) if learned else None

    def embed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        if isinstance(position_ids, Grid):
            height, width = position_ids.height, position_ids.width
            rows, columns = self._encode_axis(0, range(height), x), self._encode_axis(1, range(width), x)
            size = height, width, -1
            grid = torch.cat((rows[:, None].expand(size), columns[None].expand(size)), -1)
            return x + grid.flatten(0, 1)
        columns = self._encode_axis(1, position_ids, x)
        rows = self._encode_axis(0, range(1), x).expand_as(columns)
        return x + torch.cat((rows, columns), -1)

    def _encode_axis(self, axis: int, position_ids: PositionIds, like: Tensor) -> Tensor:
        """Encodings along rows (0) or columns (1), (..., dim/2)."""
        if self.tables is None:
            return sinusoidal_table(position_tensor(position_ids, like.device), self.dim // 2, self.base).to(like.dtype)
        check_range(position_ids, self.tables.shape[1], f"axial positions along {('rows', 'columns')[axis]}")
        return select_rows(self.tables[axis], position_ids).to(like.dtype)
