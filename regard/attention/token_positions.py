"""Where queries and keys stand. A stretch of a sequence is a `range`; anything else is a tensor of positions or a Grid.

A range costs nothing and lets masks and kernels see at once that a causal triangle is plain, or that a decoding step
sees all that came before.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Grid:
    """A flattened picture: place i stands at row y = i // width, column x = i % width."""

    height: int
    width: int

    def __len__(self) -> int:
        return self.height * self.width

    def coordinates(self, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
        """(y, x) of every place, each (n,)."""
        place = torch.arange(len(self), device=device)
        return place // self.width, place % self.width


PositionIds = range | Tensor | Grid
"""Positions of a sequence: range, tensor of (n,) or (b, n), or Grid."""


def position_tensor(position_ids: PositionIds, device: torch.device | None = None) -> Tensor:
    """Positions as a tensor, (n,) or (b, n)."""
    if isinstance(position_ids, Tensor):
        return position_ids
    if isinstance(position_ids, Grid):
        return torch.arange(len(position_ids), device=device)
    return torch.arange(position_ids.start, position_ids.stop, device=device)


def distances(q_pos: PositionIds, k_pos: PositionIds, device: torch.device | None = None) -> Tensor:
    """key position - query position, (q, k) or (b, q, k)."""
    return position_tensor(k_pos, device)[..., None, :] - position_tensor(q_pos, device)[..., :, None]


@dataclass(frozen=True)
class QueryKeyPositions:
    """Where the queries and the keys of one act of attention stand, and what they are, for whoever looks.

    example_ids: (b,) which example each row of the batch belongs to, where that is not simply its number.
    """

    q_pos: PositionIds
    k_pos: PositionIds
    query_axis: str = "tokens"
    key_axis: str = "tokens"
    example_ids: Tensor | None = None
