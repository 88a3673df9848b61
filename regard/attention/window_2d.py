"""Dot-product scores within a neighbourhood of an image, |dy| <= window and |dx| <= window, in overlapping tiles.

As attention/window.py, along both axes: a tile of T x T queries attends to (T + 2·window)² keys, so time and memory
grow linearly with the number of positions (Parmar et al. 2018, section 3.3, 2-D local attention).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.masks import Mask
from regard.attention.scores import DotScores
from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.attention.window import BiasFn, Blocks, and_attn_mask


@dataclass(frozen=True)
class Tiles:
    """Division of a grid into blocks along both axes."""

    grid: Grid
    along_y: Blocks
    along_x: Blocks

    @property
    def num_pairs(self) -> int:
        """Number of scores that are computed for each head."""
        return self.along_y.num_pairs * self.along_x.num_pairs

    def split_queries(self, x: Tensor) -> Tensor:
        """(b, n, ...) to (b · tiles, queries of a tile, ...)."""
        x = self.along_y.split_queries(x.unflatten(1, (self.grid.height, self.grid.width)))
        return self.along_x.split_queries(x.transpose(1, 2)).flatten(1, 2)

    def split_keys(self, x: Tensor) -> Tensor:
        """(b, n, ...) to overlapping (b · tiles, keys of a tile, ...), padded with zeros."""
        x = self.along_y.split_keys(x.unflatten(1, (self.grid.height, self.grid.width)))
        return self.along_x.split_keys(x.transpose(1, 2)).flatten(1, 2)

    def merge_queries(self, x: Tensor) -> Tensor:
        """(b · tiles, queries of a tile, ...) back to (b, n, ...)."""
        x = self.along_x.merge_queries(x.unflatten(1, (self.along_x.size, self.along_y.size)), self.grid.width)
        return self.along_y.merge_queries(x.transpose(1, 2), self.grid.height).flatten(1, 2)


def split_tiles(grid: Grid, window: int) -> Tiles:
    """Choose the tiles of a grid. Tiles of 8 x 8 queries use the kernel well and compute few unneeded pairs."""
    size = max(8, window)
    y, x = (
        Blocks(-(-n // min(size, n)), min(size, n), min(window, n), min(window, n), 0)
        for n in (grid.height, grid.width)
    )
    return Tiles(grid, y, x)


@dataclass(frozen=True)
class Window2dScores:
    """scale · query · keyᵀ + bias where |dy| and |dx| are at most `window`. Other keys are masked.

    Args:
        query: (b, h, n, d), flattened row by row.
        key: (b, h, n, d).
        qk_positions: Positions of queries and keys.
        grid: Size of the image.
        scale: Factor of the product.
        window: Largest distance between query and key along each axis.
        bias: Maps query and key positions to a bias that broadcasts to (b, h, q, k). It is called for tiles.
    """

    query: Tensor
    key: Tensor
    qk_positions: QueryKeyPositions
    grid: Grid
    scale: float
    window: int
    bias: BiasFn | None = None

    def weights(self, mask: Mask | None = None) -> Tensor:
        dot, mask = self._as_dot(mask)
        return dot.weights(mask)

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        tiles = split_tiles(self.grid, self.window)
        if tiles.num_pairs >= len(self.grid) ** 2 or (mask is not None and mask.attn_mask is not None):
            dot, mask = self._as_dot(mask)
            return dot.attend(value, mask)
        query = tiles.split_queries(self.query.transpose(1, 2)).transpose(1, 2)
        key, value = (tiles.split_keys(x.transpose(1, 2)).transpose(1, 2) for x in (self.key, value))
        allowed = self._allowed(tiles, mask, query)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=self.scale)
        return tiles.merge_queries(out.transpose(1, 2)).transpose(1, 2)

    def _allowed(self, tiles: Tiles, mask: Mask | None, query: Tensor) -> Tensor:
        """Allowed pairs of each tile, (b · tiles, 1, q, k), or an additive mask with the bias, (b · tiles, h, q, k)."""
        b, n, device = self.query.shape[0], len(self.grid), query.device
        index = torch.arange(n, device=device)[None]
        y, x = (
            (tiles.split_keys(axis[None])[:, None, :] - tiles.split_queries(axis[None])[:, :, None]).abs()
            for axis in self.grid.coordinates(device)
        )
        allowed = (y <= self.window) & (x <= self.window)
        q_pos, k_pos = tiles.split_queries(index), tiles.split_keys(index)
        if mask is not None and mask.causal:
            allowed = allowed & (q_pos[:, :, None] >= k_pos[:, None, :])
        key_mask = torch.ones_like(index, dtype=torch.bool) if mask is None or mask.key_mask is None else mask.key_mask
        allowed = (allowed.repeat(b, 1, 1) & tiles.split_keys(key_mask.expand(b, n))[:, None])[:, None]
        bias = None if self.bias is None else self.bias(q_pos, k_pos)
        if bias is None:
            return allowed
        return torch.where(allowed, bias.to(query.dtype).repeat(b if bias.shape[0] > 1 else 1, 1, 1, 1), -torch.inf)

    def _as_dot(self, mask: Mask | None) -> tuple[DotScores, Mask]:
        """The same scores as a dot product, with the neighbourhood in the mask."""
        p = self.qk_positions
        y, x = self.grid.coordinates(self.query.device)
        near = ((y[:, None] - y).abs() <= self.window) & ((x[:, None] - x).abs() <= self.window)
        bias = None if self.bias is None else self.bias(p.q_pos, p.k_pos)
        return DotScores(self.query, self.key, p, self.scale, bias), and_attn_mask(mask, near[None, None])
