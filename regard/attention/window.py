"""WindowScores scores: query · key within a window, |i - j| <= window, in overlapping blocks.

    queries of a block   t·B ... t·B + B - 1
    keys of a block      t·B - window ... t·B + B - 1 + window      (no later ones where the mask is causal)

Each block is one small attention of the fused kernel, so time and memory grow with n · (B + 2 · window), forward and
backward (Beltagy et al. 2020, Longformer, section 3.2, is the same idea). Keys are copied into their overlapping blocks
by slices, whose gradient is slices added up; a strided view would save the copy, but its gradient is slow.

The window is about places, so a decoding step (fewer queries than keys) is right too. Where blocks would save nothing
(short sequences, a mask of pairs, places that are no plain stretch) it is a plain `Dot` with a band in its mask.
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


@dataclass(frozen=True)
class Blocks:
    """How n queries, the first of which stands at key `shift`, are cut: `count` blocks of `size` queries, each with
    `left` keys before and `right` keys after it."""

    count: int
    size: int
    left: int
    right: int
    shift: int

    @property
    def width(self) -> int:
        return self.left + self.size + self.right

    @property
    def pairs(self) -> int:
        """How many scores are computed for each head."""
        return self.count * self.size * self.width

    def of_queries(self, x: Tensor) -> Tensor:
        """(b, n, ...) to (b · count, size, ...)."""
        b, n, *rest = x.shape
        x = _pad(x, 0, self.count * self.size - n)
        return x.reshape(b * self.count, self.size, *rest)

    def of_keys(self, x: Tensor) -> Tensor:
        """(b, k, ...) to overlapping (b · count, width, ...); what lies outside is zero."""
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

    def joined(self, x: Tensor, n: int) -> Tensor:
        """(b · count, size, ...) back to (b, n, ...)."""
        return x.reshape(-1, self.count * self.size, *x.shape[2:])[:, :n]

    def starts(self, device: torch.device) -> Tensor:
        """The first key of each block, (count, 1); the first ones may lie before the sequence."""
        return torch.arange(self.count, device=device)[:, None] * self.size + self.shift - self.left


def cut(q_pos: PositionIds, k_pos: PositionIds, window: int, causal: bool) -> Blocks | None:
    """The blocks for these places; None where the places are no plain stretch, queries within keys."""
    rows, columns = _stretch(q_pos), _stretch(k_pos)
    if not rows or not columns or rows.start < columns.start or rows.stop > columns.stop:
        return None
    # Measured: small blocks waste fewer pairs outside the band, large ones fill the kernel; both lose past these.
    size = max(32, min(window, max(128, window // 2)))
    return Blocks(-(-len(rows) // size), size, window, 0 if causal else window, rows.start - columns.start)


@dataclass(frozen=True)
class WindowScores:
    """scale · query · keyᵀ + bias where |i - j| <= window, and nothing elsewhere.

    `bias` is asked only for the places of a block; with `by_distance` it is the same in every block and asked once.
    """

    query: Tensor
    key: Tensor
    qk_positions: QueryKeyPositions
    scale: float
    window: int
    bias: Callable[[PositionIds, PositionIds], Tensor | None] | None = None
    by_distance: bool = False

    def weights(self, mask: Mask | None = None) -> Tensor:
        dot, mask = self._dense(mask)
        return dot.weights(mask)

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        blocks = self._blocks(mask)
        if blocks is None or blocks.pairs >= self.query.shape[2] * self.key.shape[2]:
            dot, mask = self._dense(mask)
            return dot.attend(value, mask)
        query, key = self._parts(blocks)
        value = blocks.of_keys(value.transpose(1, 2)).transpose(1, 2)
        allowed, bias = self._allowed(blocks, mask), self._bias(blocks)
        if bias is not None:
            allowed = torch.where(allowed, bias.to(query.dtype), -torch.inf)
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=self.scale)
        return blocks.joined(context.transpose(1, 2), self.query.shape[2]).transpose(1, 2)

    def band(self, mask: Mask | None = None) -> Tensor:
        """The weights without the zeros around them, (b, h, q, 2 · window + 1): the middle one is the query's own
        place. For sequences too long for `weights`."""
        blocks = self._blocks(mask)
        if blocks is None:
            raise UserError("the band of weights wants plain places and no mask of pairs; use weights() here")
        query, key = self._parts(blocks)
        logits, bias = (query * self.scale) @ key.transpose(-2, -1), self._bias(blocks)
        weights = masked_softmax(logits if bias is None else logits + bias, self._allowed(blocks, mask))
        weights = F.pad(weights, (0, self.window - blocks.right))
        # Rows of one more than their width, laid out end to end again, stand one further left each: a diagonal becomes
        # a column.
        size, width = weights.shape[-2:]
        skewed = F.pad(weights.flatten(-2), (0, size)).unflatten(-1, (size, width + 1))[..., : 2 * self.window + 1]
        return blocks.joined(skewed.transpose(1, 2), self.query.shape[2]).transpose(1, 2)

    def _blocks(self, mask: Mask | None) -> Blocks | None:
        if mask is not None and mask.attn_mask is not None:
            return None
        return cut(self.qk_positions.q_pos, self.qk_positions.k_pos, self.window, mask is not None and mask.causal)

    def _parts(self, blocks: Blocks) -> tuple[Tensor, Tensor]:
        """Queries (b · count, h, size, d) and overlapping keys (b · count, h, width, d)."""
        query, key = blocks.of_queries(self.query.transpose(1, 2)), blocks.of_keys(self.key.transpose(1, 2))
        return query.transpose(1, 2), key.transpose(1, 2)

    def _allowed(self, blocks: Blocks, mask: Mask | None) -> Tensor:
        """What may be seen within each block, (b · count, 1, size, width)."""
        device, b, k = self.query.device, self.query.shape[0], self.key.shape[2]
        column, row = torch.arange(blocks.width, device=device), torch.arange(blocks.size, device=device)
        away = column - blocks.left - row[:, None]
        near = (away >= -self.window) & (away <= (0 if mask is not None and mask.causal else self.window))
        key = blocks.starts(device) + column
        real = ((key >= 0) & (key < k)).repeat(b, 1)
        if mask is not None and mask.key_mask is not None:
            real = blocks.of_keys(mask.key_mask.expand(b, k))
        return (near & real[:, None])[:, None]

    def _bias(self, blocks: Blocks) -> Tensor | None:
        """(1 or b · count, h, size, width)"""
        if self.bias is None:
            return None
        if self.by_distance:
            return self.bias(range(blocks.left, blocks.left + blocks.size), range(blocks.width))
        start = _first(self.qk_positions.k_pos) + blocks.starts(self.query.device)
        column = torch.arange(blocks.width, device=start.device)
        bias = self.bias(start + column[blocks.left : blocks.left + blocks.size], start + column)
        return None if bias is None else bias.repeat(self.query.shape[0] if bias.shape[0] > 1 else 1, 1, 1, 1)

    def _dense(self, mask: Mask | None) -> tuple[DotScores, Mask | None]:
        """The same as a plain dot product, the band being a mask of pairs where it hides anything."""
        p = self.qk_positions
        bias = None if self.bias is None else self.bias(p.q_pos, p.k_pos)
        dot = DotScores(self.query, self.key, p, self.scale, bias)
        if _all_near(p, self.window, mask is not None and mask.causal):
            return dot, mask
        near = distances(p.q_pos, p.k_pos, self.query.device).abs() <= self.window
        near = near[:, None] if near.dim() == 3 else near[None, None]
        mask = mask or Mask()
        return dot, replace(mask, attn_mask=near if mask.attn_mask is None else near & mask.attn_mask)


def _pad(x: Tensor, before: int, after: int) -> Tensor:
    """(b, n, ...) with zeros before and after; fewer than none cuts off."""
    if before == after == 0:
        return x
    return F.pad(x, (0, 0) * (x.dim() - 2) + (before, after))


def _stretch(position_ids: PositionIds) -> range | None:
    if isinstance(position_ids, Grid):
        return range(len(position_ids))
    return position_ids if isinstance(position_ids, range) else None


def _first(position_ids: PositionIds) -> int:
    stretch = _stretch(position_ids)
    assert stretch is not None
    return stretch.start


def _all_near(qk_positions: QueryKeyPositions, window: int, causal: bool) -> bool:
    """Whether the window hides nothing, as in a decoding step whose memory forgets what lies further back."""
    q_pos, k_pos = _stretch(qk_positions.q_pos), _stretch(qk_positions.k_pos)
    if not q_pos or not k_pos:
        return False
    return q_pos.stop - 1 - k_pos.start <= window and (causal or k_pos.stop - 1 - q_pos.start <= window)
