"""Additive attention (Bahdanau et al. 2015, section A.1.2).

    score = v · tanh(W_q x + W_k c + b)        for each head

A small network compares each pair, so the scores need an intermediate tensor of q x k x hidden numbers. It is computed
in chunks that fit into a CPU cache, and recomputed in the backward pass, so that memory grows with q x k only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import Mechanism, split_heads, xavier_linear
from regard.attention.scores import DenseScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.config.validation import check_positive

CHUNK = 2 * 2**20
"""Bytes of the largest intermediate tensor. Smaller chunks are slower."""


class AdditiveMechanism(Mechanism):
    """Additive attention.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        hidden: Width of the tanh layer of one head. Default: dim / heads.
        **options: Options of `Mechanism`.
    """

    name = "additive"
    title = "additive"
    citation = "Bahdanau et al. 2015, Neural Machine Translation by Jointly Learning to Align and Translate, A.1.2"
    reason = "a small network compares each pair; the first attention, with bounded scores at any width"
    accepts = frozenset({"none", "embed", "bias"})

    def __init__(self, dim: int, heads: int, *, hidden: int | None = None, **options: Any):
        super().__init__(dim, heads, **options)
        check_positive(self.name, hidden=hidden)
        self.hidden = self.score_width = hidden or max(1, dim // heads)
        # The bias of q is b; a second one on the keys would be redundant.
        self.q = xavier_linear(dim, heads * self.hidden, self.has_bias)
        self.k = xavier_linear(self.context_dim, heads * self.hidden, bias=False)
        self.v = self.value_projection()
        self.score_vector = nn.Parameter(torch.randn(heads, self.hidden) * self.hidden**-0.5)

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return split_heads(self.q(x), self.heads)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        return split_heads(self.k(x), self.heads), split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        logits = additive_logits(query, keys, self.score_vector)
        bias = self.position_bias(qk_positions)
        return DenseScores(logits if bias is None else logits + bias.to(logits.dtype), qk_positions)


def additive_logits(query: Tensor, keys: Tensor, score_vector: Tensor) -> Tensor:
    """score_vector · tanh(query + key): (b, h, q, d), (b, h, k, d), (h, d) -> (b, h, q, k).

    Uses tanh(s) = 2 sigmoid(2s) - 1, which is equal up to rounding and about four times as fast on a CPU.
    """
    b, h, n, d = query.shape
    m = keys.shape[2]
    q, k = 2 * query.reshape(b * h, n, d), 2 * keys.reshape(b * h, m, d)
    v = score_vector.expand(b, h, d).reshape(b * h, d)
    small = q.numel() * m * q.element_size() <= CHUNK
    logits = _dot_pairs(_pairs(q, k), 2 * v) if small else _ChunkedLogits.apply(q, k, 2 * v)
    return (logits - v.sum(-1)[:, None, None]).view(b, h, n, m)


def _pairs(q: Tensor, k: Tensor) -> Tensor:
    """sigmoid(q + k) of all pairs: (r, q, d), (r, k, d) -> (r, q, k, d)."""
    return (q[:, :, None] + k[:, None]).sigmoid_()


def _dot_pairs(pairs: Tensor, v: Tensor) -> Tensor:
    """(r, q, k, d), (r, d) -> (r, q, k). A row times a matrix is faster than a matrix times a column."""
    return (v[:, None] @ pairs.flatten(1, 2).transpose(1, 2)).view(pairs.shape[:3])


def _chunks(q: Tensor, k: Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of rows and of queries whose pairs fit into a chunk."""
    (r, n, d), m = q.shape, k.shape[1]
    chunk_queries = max(1, CHUNK // (m * d * q.element_size()))  # each with all keys
    rows, queries = max(1, chunk_queries // n), min(chunk_queries, n)
    for row in range(0, r, rows):
        for first in range(0, n, queries):
            yield slice(row, row + rows), slice(first, first + queries)


class _ChunkedLogits(torch.autograd.Function):
    """_dot_pairs(_pairs(q, k), v) with at most one chunk of pairs in memory, forward and backward."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        logits = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        for r, c in _chunks(q, k):
            logits[r, c] = _dot_pairs(_pairs(q[r, c], k[r]), v[r])
        return logits

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for r, c in _chunks(q, k):
            g, pairs = grad[r, c], _pairs(q[r, c], k[r])
            dv[r] += (g.flatten(1)[:, None] @ pairs.flatten(1, 2))[:, 0]
            slope = pairs.addcmul_(pairs, pairs, value=-1).mul_(g[..., None])
            dq[r, c] = slope.sum(2)
            dk[r] += slope.sum(1)
        return dq * v[:, None], dk * v[:, None], dv  # v is the same for all pairs, so it is multiplied after the sums
