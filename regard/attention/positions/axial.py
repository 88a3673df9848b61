"""Axial positions in two dimensions (Parmar et al. 2018, section 3.1): half of the width says the row, half the column.

    PE(y, x) = [P_row(y); P_column(x)]

Each half is sinusoidal, so any picture can be read, or with learned=True a trained table of `length` rows and as many
columns. A plain sequence is a picture of height 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.lookup import rows, within
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.sinusoidal import table
from regard.attention.token_positions import Grid, PositionIds, position_tensor
from regard.config.validation import check_positive
from regard.errors import UserError


class Axial(PositionEncoding):
    name, title, kind = "axial", "axial 2-D (Parmar 2018)", "embed"

    def __init__(self, dim: int, heads: int, *, learned: bool = False, length: int = 64, base: float = 10_000.0):
        super().__init__(dim, heads)
        parts = 2 if learned else 4  # sinusoidal halves are made of pairs
        if dim % parts:
            raise UserError(f"axial positions want a width that {parts} divides; given {dim}")
        check_positive("axial positions", length=length)
        self.base = base
        self.tables = nn.Parameter(torch.randn(2, length, dim // 2) * 0.02) if learned else None

    def embed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        if isinstance(position_ids, Grid):
            y, x_ = self._half(0, range(position_ids.height), x), self._half(1, range(position_ids.width), x)
            size = position_ids.height, position_ids.width, -1
            grid = torch.cat((y[:, None].expand(size), x_[None].expand(size)), -1)
            return x + grid.flatten(0, 1)
        column = self._half(1, position_ids, x)
        row = self._half(0, range(1), x).expand_as(column)
        return x + torch.cat((row, column), -1)

    def _half(self, axis: int, position_ids: PositionIds, like: Tensor) -> Tensor:
        """Positions along rows (0) or columns (1), (..., dim/2)."""
        if self.tables is None:
            return table(position_tensor(position_ids, like.device), self.dim // 2, self.base).to(like.dtype)
        within(position_ids, self.tables.shape[1], f"axial positions along {('rows', 'columns')[axis]}")
        return rows(self.tables[axis], position_ids).to(like.dtype)
