"""Additive attention (Bahdanau et al. 2015, section A.1.2).

    score = v · tanh(W_q x + W_k m + b)        for each head

A small net compares each pair, so scores are no matrix product: they pass through a tensor of q x k x hidden numbers.
That tensor is made in chunks that fit a cache and made again in the backward pass, so memory grows with q x k only.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import DenseScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.config.validation import check_positive

CHUNK = 2 * 2**20
"""Bytes of the largest intermediate tensor; below this, chunks only cost."""


class AdditiveMechanism(Mechanism):
    name = "additive"
    title = "additive"
    citation = "Bahdanau et al. 2015, Neural Machine Translation by Jointly Learning to Align and Translate, A.1.2"
    reason = "a small net compares each pair; the first attention, and bounded scores whatever the width"
    accepts = frozenset({"none", "embed", "bias"})

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        context_dim: int | None = None,
        value_width: int | None = None,
        positions: PositionEncoding | None = None,
        bias: bool = True,
        hidden: int | None = None,
    ):
        super().__init__(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias)
        check_positive(self.name, hidden=hidden)
        self.hidden = hidden or max(1, dim // heads)
        # The bias of q is b; a second one on the keys would say the same.
        self.q = projection(dim, heads * self.hidden, bias)
        self.k = projection(self.context_dim, heads * self.hidden, bias=False)
        self.v = projection(self.context_dim, heads * self.value_width, bias)
        self.judge = nn.Parameter(torch.randn(heads, self.hidden) * self.hidden**-0.5)

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return split_heads(self.q(x), self.heads)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        return split_heads(self.k(x), self.heads), split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        logits = additive(query, keys, self.judge)
        bias = self.positions.bias(qk_positions.q_pos, qk_positions.k_pos)
        return DenseScores(logits if bias is None else logits + bias.to(logits.dtype), qk_positions)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        u, v, h = self.hidden, self.value_width, self.heads
        project = 2 * h * (n * self.dim * u + m * self.context_dim * (u + v))
        compare = 2 * h * n * m * (u + v)
        return Cost(self.params(), project + compare, 4 * h * n * m)


def additive(query: Tensor, keys: Tensor, judge: Tensor) -> Tensor:
    """judge · tanh(query + key): (b, h, q, d), (b, h, k, d), (h, d) -> (b, h, q, k).

    As tanh(s) = 2 sigmoid(2s) - 1, which comes to the same within rounding and is about four times as fast on a CPU.
    """
    b, h, n, d = query.shape
    m = keys.shape[2]
    q, k = 2 * query.reshape(b * h, n, d), 2 * keys.reshape(b * h, m, d)
    v = judge.expand(b, h, d).reshape(b * h, d)
    small = q.numel() * m * q.element_size() <= CHUNK
    logits = _judge(_pairs(q, k), 2 * v) if small else _InChunks.apply(q, k, 2 * v)
    return (logits - v.sum(-1)[:, None, None]).view(b, h, n, m)


def _pairs(q: Tensor, k: Tensor) -> Tensor:
    """(r, q, d), (r, k, d) -> (r, q, k, d)."""
    return (q[:, :, None] + k[:, None]).sigmoid_()


def _judge(pairs: Tensor, v: Tensor) -> Tensor:
    """(r, q, k, d), (r, d) -> (r, q, k), as a row times a matrix, the faster way round."""
    return (v[:, None] @ pairs.flatten(1, 2).transpose(1, 2)).view(pairs.shape[:3])


def _chunks(q: Tensor, k: Tensor) -> Iterator[tuple[slice, slice]]:
    """Parts of the rows and of the queries whose pairs fit a chunk."""
    (r, n, d), m = q.shape, k.shape[1]
    fit = max(1, CHUNK // (m * d * q.element_size()))  # queries, each with all keys
    several, queries = max(1, fit // n), min(fit, n)
    for row in range(0, r, several):
        for first in range(0, n, queries):
            yield slice(row, row + several), slice(first, first + queries)


class _InChunks(torch.autograd.Function):
    """_judge(_pairs(q, k), v), never holding more than one chunk of pairs, forwards or backwards."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        logits = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        for r, c in _chunks(q, k):
            logits[r, c] = _judge(_pairs(q[r, c], k[r]), v[r])
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
        return dq * v[:, None], dk * v[:, None], dv  # v is the same for all pairs, so it can wait until after the sums
