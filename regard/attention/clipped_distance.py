"""Products with embeddings of the clipped distance between query and key, without an n x n x d tensor.

    logits(q, k, a)[i, j] = q_i · (k_j + a_c(j - i))        c(x) = clip(x) + clip: one of 2·clip + 1 rows of a
    apply(w, v, a)[i]     = Σ_j w_ij (v_j + a_c(j - i))

q·a is a small matrix (n, 2·clip + 1). `add_by_distance` adds it to the pairs: within a block of rows all columns far to
the left use its first column, all far to the right its last, and only the strip between is looked up.
`sum_by_distance` is the transpose: it sums the pairs of a row for each distance. Each is the gradient of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

BLOCK_ROWS = 64
"""Rows of a block. The strip that is looked up has BLOCK_ROWS + 2·clip columns."""


def logits(query: Tensor, key: Tensor, table: Tensor, offset: int) -> Tensor:
    """Scores with relative positions in the keys.

    Args:
        query: (b, h, q, d).
        key: (b, h, k, d).
        table: Embeddings of the clipped distances, (2·clip + 1, d).
        offset: Position of the first key minus position of the first query.

    Returns:
        (b, h, q, k).
    """
    # One dtype, because autocast does not act on the backward pass of a custom function.
    return _Logits.apply(query, key, table.to(query.dtype), offset)  # type: ignore[return-value]


def apply(weights: Tensor, value: Tensor, table: Tensor, offset: int) -> Tensor:
    """Weighted sum of values with relative positions: (b, h, q, k), (b, h, k, d), (2·clip + 1, d) -> (b, h, q, d)."""
    return _Apply.apply(weights.to(value.dtype), value, table.to(value.dtype), offset)  # type: ignore[return-value]


class _Logits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, table: Tensor, offset: int) -> Tensor:
        ctx.save_for_backward(query, key, table)
        ctx.offset = offset
        return add_by_distance(query @ table.t(), offset, query @ key.transpose(-2, -1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        query, key, table = ctx.saved_tensors
        sums = sum_by_distance(grad, ctx.offset, len(table))
        return grad @ key + sums @ table, grad.transpose(-2, -1) @ query, _table_grad(sums, query), None


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, table: Tensor, offset: int) -> Tensor:
        ctx.save_for_backward(weights, value, table)
        ctx.offset = offset
        return weights @ value + sum_by_distance(weights, offset, len(table)) @ table

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        weights, value, table = ctx.saved_tensors
        sums = sum_by_distance(weights, ctx.offset, len(table))  # recomputed, so that double backward is correct
        weights_grad = add_by_distance(grad @ table.t(), ctx.offset, grad @ value.transpose(-2, -1))
        return weights_grad, weights.transpose(-2, -1) @ grad, _table_grad(sums, grad), None


def add_by_distance(by_distance: Tensor, offset: int, pairs: Tensor) -> Tensor:
    """Add the number of each distance, (..., q, 2·clip + 1), to the pairs, (..., q, k), in place."""
    k, clip = pairs.shape[-1], by_distance.shape[-1] // 2
    for rows, left, right, index in _blocks(pairs, offset, clip):
        source, target = by_distance[..., rows, :], pairs[..., rows, :]
        if left > 0:
            target[..., :left] += source[..., :1]
        if right < k:
            target[..., right:] += source[..., -1:]
        if right > left:
            target[..., left:right] += source.gather(-1, index.expand(*source.shape[:-1], right - left))
    return pairs


def sum_by_distance(pairs: Tensor, offset: int, size: int) -> Tensor:
    """Sum the pairs (..., q, k) of each row for each of `size` distances: (..., q, size)."""
    k, sums = pairs.shape[-1], pairs.new_zeros(*pairs.shape[:-1], size)
    for rows, left, right, index in _blocks(pairs, offset, size // 2):
        target, source = sums[..., rows, :], pairs[..., rows, :]
        if right > left:
            target.scatter_add_(-1, index.expand(*target.shape[:-1], right - left), source[..., left:right])
        if left > 0:
            target[..., 0] += source[..., :left].sum(-1)
        if right < k:
            target[..., -1] += source[..., right:].sum(-1)
    return sums


def _blocks(pairs: Tensor, offset: int, clip: int) -> Iterator[tuple[slice, int, int, Tensor]]:
    """Blocks of rows. Columns left..right-1 need a lookup; their index into the table is (rows, right - left)."""
    (q, k), device = pairs.shape[-2:], pairs.device
    for start in range(0, q, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, q)
        left = min(max(start - offset - clip + 1, 0), k)
        right = max(left, min(stop - 1 - offset + clip, k))
        column, row = torch.arange(left, right, device=device), torch.arange(start, stop, device=device)
        yield slice(start, stop), left, right, table_index(column - row[:, None] + offset, clip)


def table_index(distance: Tensor, clip: int) -> Tensor:
    """Row of the table for each distance."""
    return distance.clamp(-clip, clip) + clip


def _table_grad(sums: Tensor, x: Tensor) -> Tensor:
    """Σ over batch, heads and queries of sums ⊗ x: (2·clip + 1, d)."""
    return sums.flatten(0, -2).t() @ x.flatten(0, -2)
