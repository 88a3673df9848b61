"""Positions of queries and keys in their sequence.

Consecutive positions are a `range`; other positions are a tensor or a `Grid`. A range needs no memory, and masks and
kernels can tell from it without looking at numbers that a causal mask is the standard triangle, or that a decoding
step may attend to all earlier keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Grid:
    """Positions of a flattened image or feature map: position i is at row i // width, column i % width."""

    height: int
    width: int

    def __len__(self) -> int:
        return self.height * self.width

    def coordinates(self, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
        """Row y and column x of every position, each (n,)."""
        index = torch.arange(len(self), device=device)
        return index // self.width, index % self.width


PositionIds = range | Tensor | Grid
"""Positions of a sequence: a range, a tensor (n,) or (b, n), or a Grid."""


def position_tensor(position_ids: PositionIds, device: torch.device | None = None) -> Tensor:
    """Convert positions to a tensor, (n,) or (b, n)."""
    if isinstance(position_ids, Tensor):
        return position_ids
    if isinstance(position_ids, Grid):
        return torch.arange(len(position_ids), device=device)
    return torch.arange(position_ids.start, position_ids.stop, device=device)


def distances(q_pos: PositionIds, k_pos: PositionIds, device: torch.device | None = None) -> Tensor:
    """Key position minus query position for all pairs, (q, k) or (b, q, k)."""
    return position_tensor(k_pos, device)[..., None, :] - position_tensor(q_pos, device)[..., :, None]


@dataclass(frozen=True)
class QueryKeyPositions:
    """Query and key positions of one attention call, with axis labels for `record`.

    Args:
        q_pos: Positions of the queries.
        k_pos: Positions of the keys.
        query_axis: What the queries are: "tokens", "sentences", "hops", "grid".
        key_axis: What the keys are: "tokens", "source", "sentences", "grid".
        example_ids: The example that each batch row belongs to, (b,). None if row i is example i.
    """

    q_pos: PositionIds
    k_pos: PositionIds
    query_axis: str = "tokens"
    key_axis: str = "tokens"
    example_ids: Tensor | None = None
