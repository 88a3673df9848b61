"""Dot-product scores within a window, |i - j| <= window, in overlapping blocks.

    queries of a block   t·B ... t·B + B - 1
    keys of a block      t·B - window ... t·B + B - 1 + window      (no later keys if the mask is causal)

Each block is one small call of the fused kernel, so time and memory grow with n · (B + 2 · window), forward and
backward (the same idea as Beltagy et al. 2020, Longformer, section 3.2). Keys are copied into their overlapping blocks
by slices, whose gradient is a sum of slices. A strided view would save the copy, but its gradient is slow.

The window is about positions, so a decoding step (fewer queries than keys) works too. Where blocks save nothing (short
sequences, an attn_mask, positions that are not consecutive) the window becomes part of the mask of `DotScores`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.masks import Mask
from regard.attention.scores import DotScores, masked_softmax
from regard.attention.token_positions import Grid, PositionIds, QueryKeyPositions, distances
from regard.errors import UserError

BiasFn = Callable[[PositionIds, PositionIds], Tensor | None]


@dataclass(frozen=True)
class Blocks:
    """Division of n queries into blocks, each with the keys that it may attend to.

    Args:
        count: Number of blocks.
        size: Queries of a block.
        left: Keys before the first query of a block.
        right: Keys after the last query of a block.
        shift: Index of the first query among the keys.
    """

    count: int
    size: int
    left: int
    right: int
    shift: int

    @property
    def width(self) -> int:
        """Keys of a block."""
        return self.left + self.size + self.right

    @property
    def num_pairs(self) -> int:
        """Number of scores that are computed for each head."""
        return self.count * self.size * self.width

    def split_queries(self, x: Tensor) -> Tensor:
        """(b, n, ...) to (b · count, size, ...), padded with zeros."""
        b, n, *rest = x.shape
        x = _pad(x, 0, self.count * self.size - n)
        return x.reshape(b * self.count, self.size, *rest)

    def split_keys(self, x: Tensor) -> Tensor:
        """(b, k, ...) to overlapping (b · count, width, ...), padded with zeros."""
        b, k, *rest = x.shape
        before, after = -(-self.left // self.size), -(-self.right // self.size)
        x = _pad(x, before * self.size - self.shift, self.shift + (self.count + after) * self.size - k)
        x = x.unflatten(1, (before + self.count + after, self.size))
        parts = [x[:, i : i + self.count] for i in range(before + 1 + after)]
        if before:
            parts[0] = parts[0][:, :, before * self.size - self.left :]
        if after:
            parts[-1] = parts[-1][:, :, : self.right - (after - 1) * self.size]
        return torch.cat(parts, 2).view(b * self.count, self.width, *rest)

    def merge_queries(self, x: Tensor, n: int) -> Tensor:
        """(b · count, size, ...) back to (b, n, ...)."""
        return x.reshape(-1, self.count * self.size, *x.shape[2:])[:, :n]

    def first_keys(self, device: torch.device) -> Tensor:
        """Index of the first key of each block, (count, 1). It is negative before the start of the sequence."""
        return torch.arange(self.count, device=device)[:, None] * self.size + self.shift - self.left


def split_blocks(q_pos: PositionIds, k_pos: PositionIds, window: int, causal: bool) -> Blocks | None:
    """Choose blocks for these positions. None unless they are consecutive and the queries lie within the keys."""
    queries, keys = _as_range(q_pos), _as_range(k_pos)
    if not queries or not keys or queries.start < keys.start or queries.stop > keys.stop:
        return None
    # Measured: small blocks compute fewer pairs outside the window, large blocks use the kernel better.
    size = max(32, min(window, max(128, window // 2)))
    return Blocks(-(-len(queries) // size), size, window, 0 if causal else window, queries.start - keys.start)


@dataclass(frozen=True)
class WindowScores:
    """scale · query · keyᵀ + bias where |i - j| <= window. Other keys are masked.

    Args:
        query: (b, h, q, d).
        key: (b, h, k, d).
        qk_positions: Positions of queries and keys.
        scale: Factor of the product.
        window: Largest distance between query and key.
        bias: Maps query and key positions to a bias that broadcasts to (b, h, q, k). It is called for blocks.
        distance_only: Whether the bias depends on the distance only; then it is called once for all blocks.
    """

    query: Tensor
    key: Tensor
    qk_positions: QueryKeyPositions
    scale: float
    window: int
    bias: BiasFn | None = None
    distance_only: bool = False

    def weights(self, mask: Mask | None = None) -> Tensor:
        dot, mask = self._as_dot(mask)
        return dot.weights(mask)

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        blocks = self._blocks(mask)
        if blocks is None or blocks.num_pairs >= self.query.shape[2] * self.key.shape[2]:
            dot, mask = self._as_dot(mask)
            return dot.attend(value, mask)
        query, key = self._split(blocks)
        value = blocks.split_keys(value.transpose(1, 2)).transpose(1, 2)
        allowed, bias = self._allowed(blocks, mask), self._block_bias(blocks)
        if bias is not None:
            allowed = torch.where(allowed, bias.to(query.dtype), -torch.inf)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=self.scale)
        return blocks.merge_queries(out.transpose(1, 2), self.query.shape[2]).transpose(1, 2)

    def window_weights(self, mask: Mask | None = None) -> Tensor:
        """Weights within the window only, (b, h, q, 2 · window + 1), for sequences too long for `weights`.

        The middle column is the position of the query itself.
        """
        blocks = self._blocks(mask)
        if blocks is None:
            raise UserError("window_weights needs consecutive positions and no attn_mask; use weights() instead")
        query, key = self._split(blocks)
        logits, bias = (query * self.scale) @ key.transpose(-2, -1), self._block_bias(blocks)
        weights = masked_softmax(logits if bias is None else logits + bias, self._allowed(blocks, mask))
        weights = F.pad(weights, (0, self.window - blocks.right))
        # Reshaping to rows that are one longer moves each row one column to the left: diagonals become columns.
        size, width = weights.shape[-2:]
        skewed = F.pad(weights.flatten(-2), (0, size)).unflatten(-1, (size, width + 1))[..., : 2 * self.window + 1]
        return blocks.merge_queries(skewed.transpose(1, 2), self.query.shape[2]).transpose(1, 2)

    def _blocks(self, mask: Mask | None) -> Blocks | None:
        if mask is not None and mask.attn_mask is not None:
            return None
        p = self.qk_positions
        return split_blocks(p.q_pos, p.k_pos, self.window, mask is not None and mask.causal)

    def _split(self, blocks: Blocks) -> tuple[Tensor, Tensor]:
        """Queries (b · count, h, size, d) and overlapping keys (b · count, h, width, d)."""
        query, key = blocks.split_queries(self.query.transpose(1, 2)), blocks.split_keys(self.key.transpose(1, 2))
        return query.transpose(1, 2), key.transpose(1, 2)

    def _allowed(self, blocks: Blocks, mask: Mask | None) -> Tensor:
        """Allowed pairs of each block, (b · count, 1, size, width)."""
        device, b, k = self.query.device, self.query.shape[0], self.key.shape[2]
        column, row = torch.arange(blocks.width, device=device), torch.arange(blocks.size, device=device)
        distance = column - blocks.left - row[:, None]
        near = (distance >= -self.window) & (distance <= (0 if mask is not None and mask.causal else self.window))
        key = blocks.first_keys(device) + column
        exists = ((key >= 0) & (key < k)).repeat(b, 1)
        if mask is not None and mask.key_mask is not None:
            exists = blocks.split_keys(mask.key_mask.expand(b, k))
        return (near & exists[:, None])[:, None]

    def _block_bias(self, blocks: Blocks) -> Tensor | None:
        """The bias of each block, (1 or b · count, h, size, width)."""
        if self.bias is None:
            return None
        if self.distance_only:
            return self.bias(range(blocks.left, blocks.left + blocks.size), range(blocks.width))
        keys = _as_range(self.qk_positions.k_pos)
        assert keys is not None
        first = keys.start + blocks.first_keys(self.query.device)
        column = torch.arange(blocks.width, device=first.device)
        bias = self.bias(first + column[blocks.left : blocks.left + blocks.size], first + column)
        return None if bias is None else bias.repeat(self.query.shape[0] if bias.shape[0] > 1 else 1, 1, 1, 1)

    def _as_dot(self, mask: Mask | None) -> tuple[DotScores, Mask | None]:
        """The same scores as a dot product, with the window in the mask where it hides anything."""
        p = self.qk_positions
        bias = None if self.bias is None else self.bias(p.q_pos, p.k_pos)
        dot = DotScores(self.query, self.key, p, self.scale, bias)
        if _all_within(p, self.window, mask is not None and mask.causal):
            return dot, mask
        near = distances(p.q_pos, p.k_pos, self.query.device).abs() <= self.window
        return dot, and_attn_mask(mask, near[:, None] if near.dim() == 3 else near[None, None])


def and_attn_mask(mask: Mask | None, allowed: Tensor) -> Mask:
    """Restrict a mask to allowed pairs, which broadcast to (b, h, q, k)."""
    mask = mask or Mask()
    return replace(mask, attn_mask=allowed if mask.attn_mask is None else allowed & mask.attn_mask)


def _pad(x: Tensor, before: int, after: int) -> Tensor:
    """Pad (b, n, ...) with zeros before and after. Negative numbers cut off."""
    if before == after == 0:
        return x
    return F.pad(x, (0, 0) * (x.dim() - 2) + (before, after))


def _as_range(position_ids: PositionIds) -> range | None:
    """Consecutive positions as a range, None for others."""
    if isinstance(position_ids, Grid):
        return range(len(position_ids))
    return position_ids if isinstance(position_ids, range) else None


def _all_within(qk_positions: QueryKeyPositions, window: int, causal: bool) -> bool:
    """Whether the window hides nothing, as in a decoding step whose cache holds only keys of the window."""
    queries, keys = _as_range(qk_positions.q_pos), _as_range(qk_positions.k_pos)
    if not queries or not keys:
        return False
    return queries.stop - 1 - keys.start <= window and (causal or keys.stop - 1 - queries.start <= window)
