"""Scores within a neighbourhood of a picture, |dy| <= window and |dx| <= window, in overlapping tiles.

As regard/banded.py along both axes: a tile of T x T queries meets (T + 2·window)² keys, so that time and memory grow
linearly with the number of places (Parmar et al. 2018, section 3.3, 2-D local attention).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.masks import Mask
from regard.attention.scores import DotScores
from regard.attention.token_positions import Grid, PositionIds, QueryKeyPositions
from regard.attention.window import Blocks


@dataclass(frozen=True)
class Tiles:
    """A picture cut along both axes."""

    grid: Grid
    along_y: Blocks
    along_x: Blocks

    @property
    def pairs(self) -> int:
        """How many scores are computed for each head."""
        return self.along_y.pairs * self.along_x.pairs

    def of_queries(self, x: Tensor) -> Tensor:
        """(b, n, ...) to (b · tiles, places of a tile, ...)."""
        x = self.along_y.of_queries(x.unflatten(1, (self.grid.height, self.grid.width)))
        return self.along_x.of_queries(x.transpose(1, 2)).flatten(1, 2)

    def of_keys(self, x: Tensor) -> Tensor:
        """(b, n, ...) to overlapping (b · tiles, places that they see, ...); what lies outside is zero."""
        x = self.along_y.of_keys(x.unflatten(1, (self.grid.height, self.grid.width)))
        return self.along_x.of_keys(x.transpose(1, 2)).flatten(1, 2)

    def joined(self, x: Tensor) -> Tensor:
        """(b · tiles, places of a tile, ...) back to (b, n, ...)."""
        x = self.along_x.joined(x.unflatten(1, (self.along_x.size, self.along_y.size)), self.grid.width)
        return self.along_y.joined(x.transpose(1, 2), self.grid.height).flatten(1, 2)


def cut(grid: Grid, window: int) -> Tiles:
    """Tiles of a picture; 8 x 8 queries fill the kernel and waste few pairs."""
    size = max(8, window)
    y, x = (
        Blocks(-(-n // min(size, n)), min(size, n), min(window, n), min(window, n), 0)
        for n in (grid.height, grid.width)
    )
    return Tiles(grid, y, x)


@dataclass(frozen=True)
class Window2dScores:
    """scale · query · keyᵀ + bias where both |dy| and |dx| are within the window, and nothing elsewhere."""

    query: Tensor
    key: Tensor
    qk_positions: QueryKeyPositions
    grid: Grid
    scale: float
    window: int
    bias: Callable[[PositionIds, PositionIds], Tensor | None] | None = None

    def weights(self, mask: Mask | None = None) -> Tensor:
        dot, mask = self._dense(mask)
        return dot.weights(mask)

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        tiles = cut(self.grid, self.window)
        if tiles.pairs >= len(self.grid) ** 2 or (mask is not None and mask.attn_mask is not None):
            dot, mask = self._dense(mask)
            return dot.attend(value, mask)
        query = tiles.of_queries(self.query.transpose(1, 2)).transpose(1, 2)
        key, value = (tiles.of_keys(x.transpose(1, 2)).transpose(1, 2) for x in (self.key, value))
        allowed = self._allowed(tiles, mask, query)
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=self.scale)
        return tiles.joined(context.transpose(1, 2)).transpose(1, 2)

    def _allowed(self, tiles: Tiles, mask: Mask | None, query: Tensor) -> Tensor:
        """What may be seen within each tile, (b · tiles, 1, q, k), or that with the bias, (b · tiles, h, q, k)."""
        b, n, device = self.query.shape[0], len(self.grid), query.device
        place = torch.arange(n, device=device)[None]
        allowed = None
        for along in self.grid.coordinates(device):
            q_pos, k_pos = tiles.of_queries(along[None]), tiles.of_keys(along[None])
            near = (k_pos[:, None, :] - q_pos[:, :, None]).abs() <= self.window
            allowed = near if allowed is None else allowed & near
        assert allowed is not None
        q_pos, k_pos = tiles.of_queries(place), tiles.of_keys(place)
        if mask is not None and mask.causal:
            allowed = allowed & (q_pos[:, :, None] >= k_pos[:, None, :])
        real = torch.ones_like(place, dtype=torch.bool) if mask is None or mask.key_mask is None else mask.key_mask
        allowed = (allowed.repeat(b, 1, 1) & tiles.of_keys(real.expand(b, n))[:, None])[:, None]
        bias = None if self.bias is None else self.bias(q_pos, k_pos)
        if bias is None:
            return allowed
        return torch.where(allowed, bias.to(query.dtype).repeat(b if bias.shape[0] > 1 else 1, 1, 1, 1), -torch.inf)

    def _dense(self, mask: Mask | None) -> tuple[DotScores, Mask]:
        """The same as a plain dot product, the neighbourhood being a mask of pairs."""
        p, mask = self.qk_positions, mask or Mask()
        y, x = self.grid.coordinates(self.query.device)
        near = ((y[:, None] - y).abs() <= self.window) & ((x[:, None] - x).abs() <= self.window)
        bias = None if self.bias is None else self.bias(p.q_pos, p.k_pos)
        pairs = near[None, None] if mask.attn_mask is None else near & mask.attn_mask
        return DotScores(self.query, self.key, p, self.scale, bias), replace(mask, attn_mask=pairs)
