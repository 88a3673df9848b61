"""Sinusoidal positions with all sines first and all cosines after them, as Marian and tensor2tensor lay them out.

    PE(pos, i) = sin(pos ω_i)    PE(pos, dim/2 + i) = cos(pos ω_i)    ω_i = 10000^(-2i/dim)

The same waves as `sinusoidal`, in another order; weights trained with one order do not fit the other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import UserError
from regard.places import At, indices
from regard.positions.base import Positions
from regard.positions.sinusoidal import frequencies


class SinusoidalHalves(Positions):
    name, title, kind = "sinusoidal-halves", "sinusoidal, sines first (Marian)", "embed"

    def __init__(self, dim: int, heads: int, *, base: float = 10_000.0):
        super().__init__(dim, heads)
        if dim % 2:
            raise UserError(f"sinusoidal positions pair sines with cosines and want an even width; given {dim}")
        self.base = base
        self._cache = torch.empty(0, dim)

    def embed(self, x: Tensor, at: At) -> Tensor:
        if isinstance(at, range):
            if at.stop > len(self._cache) or self._cache.device != x.device:
                self._cache = self.table(torch.arange(max(256, 2 * at.stop), device=x.device)).float()
            return x + self._cache[at.start : at.stop].to(x.dtype)
        return x + self.table(indices(at, x.device)).to(x.dtype)

    def table(self, at: Tensor) -> Tensor:
        """PE at these places, (..., dim), in float64."""
        angle = at.double()[..., None] * frequencies(self.dim, self.base, at.device)
        return torch.cat((angle.sin(), angle.cos()), -1)
