"""Sinusoidal positions (Vaswani et al. 2017, section 3.5).

    PE(pos, 2i) = sin(pos ω_i)    PE(pos, 2i+1) = cos(pos ω_i)    ω_i = 10000^(-2i/dim)

A shift by k is one rotation, the same for every position: PE(pos + k) = M^k PE(pos), where M^k has the blocks
[[cos kω, sin kω], [-sin kω, cos kω]] for the (sin, cos) order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import PositionIds, position_tensor
from regard.errors import UserError


def frequencies(dim: int, base: float = 10_000.0, device: torch.device | None = None) -> Tensor:
    """ω_i, (dim/2,), in float64 so that large positions stay exact."""
    if base <= 0:
        raise UserError(f"the base of positions must be greater than 0; given {base}")
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)


def sinusoidal_table(position_ids: Tensor, dim: int, base: float = 10_000.0) -> Tensor:
    """PE of these positions, (..., dim), in float64."""
    angle = position_ids.double()[..., None] * frequencies(dim, base, position_ids.device)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)


def shift_matrix(k: float, dim: int, base: float = 10_000.0) -> Tensor:
    """M^k, (dim, dim), with PE(pos + k) = M^k PE(pos) for every pos."""
    angle = k * frequencies(dim, base)
    cos, sin = angle.cos(), angle.sin()
    blocks = torch.stack((torch.stack((cos, sin), -1), torch.stack((-sin, cos), -1)), -2)
    return torch.block_diag(*blocks)


class Sinusoidal(PositionEncoding):
    """Sines and cosines of the position, added to the embeddings.

    Args:
        dim: Width of the model; even.
        heads: Number of heads.
        base: Base of the frequencies.
    """

    name, title, kind = "sinusoidal", "sinusoidal (Vaswani 2017)", "embed"

    def __init__(self, dim: int, heads: int, *, base: float = 10_000.0):
        super().__init__(dim, heads)
        if dim % 2:
            raise UserError(f"sinusoidal positions pair sines with cosines and need an even width; given dim={dim}")
        self.base = base
        self._cache = torch.empty(0, dim)

    def embed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        if isinstance(position_ids, range) and position_ids.start >= 0:
            table = self._cache  # read once: another thread may replace it by a shorter one
            if position_ids.stop > len(table) or table.device != x.device:
                table = self.table(torch.arange(max(256, 2 * position_ids.stop), device=x.device)).float()
                self._cache = table
            return x + table[position_ids.start : position_ids.stop].to(x.dtype)
        return x + self.table(position_tensor(position_ids, x.device)).to(x.dtype)

    def table(self, position_ids: Tensor) -> Tensor:
        """PE of these positions, (..., dim), in float64."""
        return sinusoidal_table(position_ids, self.dim, self.base)

    def shift_matrix(self, k: float) -> Tensor:
        """The rotation that shifts every position by k, (dim, dim)."""
        return shift_matrix(k, self.dim, self.base)
