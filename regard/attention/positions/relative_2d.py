"""Relative positions in two dimensions: a trained bias for each head and distance along rows, and along columns.

    score += R[dy, h] + C[dx, h]        dy, dx = key - query, each clipped to -clip..clip

The bias of Shaw, Uszkoreit & Vaswani 2018, separated by axis as Ramachandran et al. 2019 (Stand-Alone Self-Attention,
section 3) do for row and column offsets. In a flattened image the end of a row would be next to the start of the next
row; here distances are those on the image. A sequence is an image of height 1.
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
    """A trained bias for each distance along rows and along columns.

    Args:
        dim: Width of the model.
        heads: Number of heads.
        clip: Largest distance with a separate bias.
    """

    name, title, kind = "relative-2d", "relative 2-D bias (Ramachandran 2019)", "bias"

    def __init__(self, dim: int, heads: int, *, clip: int = 16):
        super().__init__(dim, heads)
        check_positive("relative 2-D positions", clip=clip)
        self.clip = clip
        self.tables = nn.Parameter(torch.randn(2, heads, 2 * clip + 1) * dim**-0.5)  # rows, columns

    def bias(self, q_pos: PositionIds, k_pos: PositionIds) -> Tensor:
        device = self.tables.device
        return self._axes_bias(_coordinates(q_pos, device), _coordinates(k_pos, device))

    def bias_fn(self, position_ids: PositionIds) -> Callable[[PositionIds, PositionIds], Tensor | None]:
        return partial(self._flat_bias, position_ids.width) if isinstance(position_ids, Grid) else self.bias

    def _flat_bias(self, width: int, q_pos: PositionIds, k_pos: PositionIds) -> Tensor:
        """The bias for indices into a flattened image of this width."""
        query, key = (position_tensor(position_ids, self.tables.device) for position_ids in (q_pos, k_pos))
        return self._axes_bias((query // width, query % width), (key // width, key % width))

    def _axes_bias(self, query: tuple[Tensor, Tensor], key: tuple[Tensor, Tensor]) -> Tensor:
        """Sum of the row and column bias for coordinates (y, x), (b or 1, h, q, k)."""
        parts = []
        for table, q, k in zip(self.tables, query, key, strict=True):
            index = (k[..., None, :] - q[..., :, None]).clamp(-self.clip, self.clip) + self.clip
            parts.append(table.index_select(1, index.flatten()).unflatten(1, index.shape))
        bias = parts[0] + parts[1]  # (h, q, k) or (h, b, q, k)
        return bias[None] if bias.dim() == 3 else bias.transpose(0, 1)


def _coordinates(position_ids: PositionIds, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row and column of each position."""
    if isinstance(position_ids, Grid):
        return position_ids.coordinates(device)
    column = position_tensor(position_ids, device)
    return torch.zeros_like(column), column
