"""Products with embeddings of the clipped distance between query and key, without an n x n x d tensor.

    compare(q, k, a)[i, j] = q_i · (k_j + a_c(j - i))       c(x) = clip(x) + clip: one of 2·clip + 1 rows of a
    read(w, v, a)[i]       = Σ_j w_ij (v_j + a_c(j - i))

q·a is a small matrix (n, 2·clip + 1). `spread` lays it over the pairs: within a block of rows all columns far to the
left share its first number, all far to the right its last, and only the strip between is looked up. `gather` is the way
back, the sum of a row of pairs for each distance. Each is the other's gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

ROWS = 64  # rows of a block: the strip that is looked up is ROWS + 2·clip wide


def compare(query: Tensor, key: Tensor, table: Tensor, shift: int) -> Tensor:
    """(b, h, q, d), (b, h, k, d), (2·clip + 1, d) -> (b, h, q, k). The first key stands `shift` after the first
    query."""
    # In one precision: autocast does not reach the backward pass of a function of our own.
    return _Compare.apply(query, key, table.to(query.dtype), shift)  # type: ignore[return-value]


def read(weights: Tensor, value: Tensor, table: Tensor, shift: int) -> Tensor:
    """(b, h, q, k), (b, h, k, d), (2·clip + 1, d) -> (b, h, q, d)."""
    return _Read.apply(weights.to(value.dtype), value, table.to(value.dtype), shift)  # type: ignore[return-value]


class _Compare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, table: Tensor, shift: int) -> Tensor:
        ctx.save_for_backward(query, key, table)
        ctx.shift = shift
        return spread(query @ table.t(), shift, onto=query @ key.transpose(-2, -1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        query, key, table = ctx.saved_tensors
        near = gather(grad, ctx.shift, len(table))
        return grad @ key + near @ table, grad.transpose(-2, -1) @ query, _outer(near, query), None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, table: Tensor, shift: int) -> Tensor:
        ctx.save_for_backward(weights, value, table)
        ctx.shift = shift
        return weights @ value + gather(weights, shift, len(table)) @ table

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        weights, value, table = ctx.saved_tensors
        near = gather(weights, ctx.shift, len(table))  # again, so that the gradient of this gradient is right too
        back = spread(grad @ table.t(), ctx.shift, onto=grad @ value.transpose(-2, -1))
        return back, weights.transpose(-2, -1) @ grad, _outer(near, grad), None


def spread(near: Tensor, shift: int, onto: Tensor) -> Tensor:
    """(..., q, 2·clip + 1) numbers for each distance, added to the pairs (..., q, k) in place."""
    k, clip = onto.shape[-1], near.shape[-1] // 2
    for rows, left, right, index in _strips(onto, shift, clip):
        line, pairs = near[..., rows, :], onto[..., rows, :]
        if left > 0:
            pairs[..., :left] += line[..., :1]
        if right < k:
            pairs[..., right:] += line[..., -1:]
        if right > left:
            pairs[..., left:right] += line.gather(-1, index.expand(*line.shape[:-1], right - left))
    return onto


def gather(pairs: Tensor, shift: int, size: int) -> Tensor:
    """Sums of the pairs (..., q, k) for each of `size` distances: (..., q, size)."""
    k, near = pairs.shape[-1], pairs.new_zeros(*pairs.shape[:-1], size)
    for rows, left, right, index in _strips(pairs, shift, size // 2):
        line, part = near[..., rows, :], pairs[..., rows, :]
        if right > left:
            line.scatter_add_(-1, index.expand(*line.shape[:-1], right - left), part[..., left:right])
        if left > 0:
            line[..., 0] += part[..., :left].sum(-1)
        if right < k:
            line[..., -1] += part[..., right:].sum(-1)
    return near


def _strips(pairs: Tensor, shift: int, clip: int) -> Iterator[tuple[slice, int, int, Tensor]]:
    """Blocks of rows, each with the columns left..right-1 whose distance is not the same clipped one for all rows."""
    (q, k), device = pairs.shape[-2:], pairs.device
    for start in range(0, q, ROWS):
        stop = min(start + ROWS, q)
        left = min(max(start - shift - clip + 1, 0), k)
        right = max(left, min(stop - 1 - shift + clip, k))
        column, row = torch.arange(left, right, device=device), torch.arange(start, stop, device=device)
        yield slice(start, stop), left, right, clipped(column - row[:, None] + shift, clip)


def clipped(distance: Tensor, clip: int) -> Tensor:
    """Which row of the table belongs to each distance."""
    return distance.clamp(-clip, clip) + clip


def _outer(near: Tensor, x: Tensor) -> Tensor:
    """Σ over batch, heads and queries of near ⊗ x: (2·clip + 1, d)."""
    return near.flatten(0, -2).t() @ x.flatten(0, -2)
