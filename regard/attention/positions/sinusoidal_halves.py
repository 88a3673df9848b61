"""Sinusoidal positions with all sines first and all cosines after them, as Marian and tensor2tensor lay them out.

    PE(pos, i) = sin(pos ω_i)    PE(pos, dim/2 + i) = cos(pos ω_i)    ω_i = 10000^(-2i/dim)

The same waves as `sinusoidal`, in another order; weights trained with one order do not fit the other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.positions.sinusoidal import Sinusoidal


class SinusoidalHalves(Sinusoidal):
    name, title, kind = "sinusoidal-halves", "sinusoidal, sines first (Marian)", "embed"

    def table(self, position_ids: Tensor) -> Tensor:
        return super().table(position_ids)[..., self._order()]

    def shift(self, k: float) -> Tensor:
        order = self._order()
        return super().shift(k)[order][:, order]

    def _order(self) -> Tensor:
        """Where each number stands among the pairs of sine and cosine."""
        return torch.arange(self.dim).view(-1, 2).t().flatten()
