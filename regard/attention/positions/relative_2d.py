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

from regard.attention.positions.position_encoding import Positions
from regard.attention.token_positions import At, Grid, indices
from regard.config.validation import positive


class Relative2d(Positions):
    name, title, kind = "relative-2d", "relative 2-D bias (Ramachandran 2019)", "bias"

    def __init__(self, dim: int, heads: int, *, clip: int = 16):
        super().__init__(dim, heads)
        positive("relative 2-D positions", clip=clip)
        self.clip = clip
        self.tables = nn.Parameter(torch.randn(2, heads, 2 * clip + 1) * dim**-0.5)  # rows, columns

    def bias(self, q_at: At, k_at: At) -> Tensor:
        return self._added(_coordinates(q_at, self.tables.device), _coordinates(k_at, self.tables.device))

    def on(self, at: At) -> Callable[[At, At], Tensor | None]:
        return partial(self._flat, at.width) if isinstance(at, Grid) else self.bias

    def _flat(self, width: int, q_at: At, k_at: At) -> Tensor:
        """The same for places that are counted through a picture of this width."""
        query, key = (indices(at, self.tables.device) for at in (q_at, k_at))
        return self._added((query // width, query % width), (key // width, key % width))

    def _added(self, query: tuple[Tensor, Tensor], key: tuple[Tensor, Tensor]) -> Tensor:
        """(b or 1, h, q, k)"""
        parts = []
        for table, q, k in zip(self.tables, query, key, strict=True):
            away = (k[..., None, :] - q[..., :, None]).clamp(-self.clip, self.clip) + self.clip
            parts.append(table.index_select(1, away.flatten()).unflatten(1, away.shape))
        added = parts[0] + parts[1]  # (h, q, k) or (h, b, q, k)
        return added[None] if added.dim() == 3 else added.transpose(0, 1)


def _coordinates(at: At, device: torch.device) -> tuple[Tensor, Tensor]:
    if isinstance(at, Grid):
        return at.coordinates(device)
    column = indices(at, device)
    return torch.zeros_like(column), column
