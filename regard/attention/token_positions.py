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


At = range | Tensor | Grid
"""Positions of a sequence: range, tensor of (n,) or (b, n), or Grid."""


def indices(at: At, device: torch.device | None = None) -> Tensor:
    """Positions as a tensor, (n,) or (b, n)."""
    if isinstance(at, Tensor):
        return at
    if isinstance(at, Grid):
        return torch.arange(len(at), device=device)
    return torch.arange(at.start, at.stop, device=device)


def distances(q_at: At, k_at: At, device: torch.device | None = None) -> Tensor:
    """key position - query position, (q, k) or (b, q, k)."""
    return indices(k_at, device)[..., None, :] - indices(q_at, device)[..., :, None]


@dataclass(frozen=True)
class Places:
    """Where the queries and the keys of one act of attention stand, and what they are, for whoever looks.

    item: (b,) which example each row of the batch belongs to, where that is not simply its number.
    """

    q_at: At
    k_at: At
    rows: str = "tokens"
    columns: str = "tokens"
    item: Tensor | None = None
