"""Relative positions in two dimensions: a trained number for each head and distance along rows, and along columns.

    score += R[dy, h] + C[dx, h]        dy, dx = key - query, each clipped to -clip..clip

The bias of Shaw, Uszkoreit & Vaswani 2018 taken apart by axis, as Ramachandran et al. 2019 (Stand-Alone Self-Attention,
section 3) do for offsets in rows and columns: what is near on the picture is near, where the order of the flattened
places would have the end of a row beside the beginning of the next. A plain sequence is a picture of height 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import Grid, PositionIds, position_tensor
from regard.config.validation import check_positive


class Relative2d(PositionEncoding):
    name, title, kind = "relative-2d", "relative 2-D bias (Ramachandran 2019)", "bias"

    def __init__(self, dim: int, heads: int, *, clip: int = 16):
        super().__init__(dim, heads)
        check_positive("relative 2-D positions", clip=clip)
        self.clip = clip
        self.tables = nn.Parameter(torch.randn(2, heads, 2 * clip + 1) * dim**-0.5)  # rows, columns

    def bias(self, q_pos: PositionIds, k_pos: PositionIds) -> Tensor:
        return self._added(_coordinates(q_pos, self.tables.device), _coordinates(k_pos, self.tables.device))

    def on(self, position_ids: PositionIds) -> Callable[[PositionIds, PositionIds], Tensor | None]:
        return partial(self._flat, position_ids.width) if isinstance(position_ids, Grid) else self.bias

    def _flat(self, width: int, q_pos: PositionIds, k_pos: PositionIds) -> Tensor:
        """The same for places that are counted through a picture of this width."""
        query, key = (position_tensor(position_ids, self.tables.device) for position_ids in (q_pos, k_pos))
        return self._added((query // width, query % width), (key // width, key % width))

    def _added(self, query: tuple[Tensor, Tensor], key: tuple[Tensor, Tensor]) -> Tensor:
        """(b or 1, h, q, k)"""
        parts = []
        for table, q, k in zip(self.tables, query, key, strict=True):
            away = (k[..., None, :] - q[..., :, None]).clamp(-self.clip, self.clip) + self.clip
            parts.append(table.index_select(1, away.flatten()).unflatten(1, away.shape))
        added = parts[0] + parts[1]  # (h, q, k) or (h, b, q, k)
        return added[None] if added.dim() == 3 else added.transpose(0, 1)


def _coordinates(position_ids: PositionIds, device: torch.device) -> tuple[Tensor, Tensor]:
    if isinstance(position_ids, Grid):
        return position_ids.coordinates(device)
    column = position_tensor(position_ids, device)
    return torch.zeros_like(column), column
