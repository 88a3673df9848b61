"""Sinusoidal positions with all sines first and all cosines after them, as in Marian and tensor2tensor.

    PE(pos, i) = sin(pos ω_i)    PE(pos, dim/2 + i) = cos(pos ω_i)    ω_i = 10000^(-2i/dim)

The numbers are those of `sinusoidal` in another order. Weights trained with one order do not fit the other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.positions.sinusoidal import Sinusoidal


class SinusoidalHalves(Sinusoidal):
    """Sinusoidal positions in the order of Marian."""

    name, title, kind = "sinusoidal-halves", "sinusoidal, sines first (Marian)", "embed"

    def table(self, position_ids: Tensor) -> Tensor:
        return super().table(position_ids)[..., self._order()]

    def shift_matrix(self, k: float) -> Tensor:
        order = self._order()
        return super().shift_matrix(k)[order][:, order]

    def _order(self) -> Tensor:
        """Index of each number in the interleaved order of `sinusoidal`, (dim,)."""
        return torch.arange(self.dim).view(-1, 2).t().flatten()
