"""Base class of all attention mechanisms.

A mechanism owns its projections and heads, and scores queries against keys. `MultiHeadAttention` calls

    project_query(x, position_ids)       (b, q, dim)          -> queries (b, h, q, ·)
    project_kv(x, position_ids)          (b, k, context_dim)  -> keys (b, h, k, ·), values (b, h, k, value_width)
    project_qkv(x, position_ids)         both for self-attention, where one matrix product can compute all three
    score(query, keys, qk_positions)     -> Scores
    cost(n, m)                           -> Cost for n queries and m keys

A mechanism on queries, keys and values derives from `QKVMechanism` and defines `score` only. Class attributes declare
where a mechanism is defined; see `Mechanism`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.positions.none import NoPositions
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.config.validation import check_positive
from regard.errors import UserError


class Mechanism(nn.Module, ABC):
    """Projections and scores of attention.

    Class attributes:
        name: Name in settings and on the command line.
        title, citation, reason: For `regard list`: readable name, source, and why one would choose it.
        accepts: Kinds of positions that it can use: "none", "embed", "rotate", "bias".
        supports_cross_attention: Whether it can attend to another sequence.
        order_sensitive: Whether the order of the keys matters even without positions.
        output_proj: Whether an output matrix W_O follows the heads.
        max_lookback: How many keys before the query a causal step needs. None for all.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        context_dim: Width of the keys' and values' input. Default: dim.
        value_width: Width of the values of one head. Default: dim / heads.
        positions: Position encoding. Default: none.
        bias: Whether the projections have biases.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    citation: ClassVar[str]
    reason: ClassVar[str]
    accepts: ClassVar[frozenset[str]] = frozenset({"none", "embed"})
    supports_cross_attention: ClassVar[bool] = True
    order_sensitive: ClassVar[bool] = False
    output_proj: ClassVar[bool] = True

    max_lookback: int | None = None
    score_width: int
    """Width of the vectors that a score compares, for `cost`. Subclasses set it."""

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        context_dim: int | None = None,
        value_width: int | None = None,
        positions: PositionEncoding | None = None,
        bias: bool = True,
    ):
        super().__init__()
        check_positive(self.name, dim=dim, heads=heads, context_dim=context_dim, value_width=value_width)
        if value_width is None:
            if dim % heads:
                divisors = [h for h in range(1, dim + 1) if dim % h == 0]
                closest = min(divisors, key=lambda h: abs(h - heads))
                raise UserError(f"heads={heads} does not divide dim={dim}; use heads={closest}, or set value_width")
            value_width = dim // heads
        positions = positions or NoPositions(dim, heads)
        if positions.kind not in self.accepts:
            raise UserError(
                f"mechanism {self.name!r} does not support {positions.name!r} positions of kind {positions.kind!r}; "
                f"it supports the kinds {', '.join(sorted(self.accepts - {'none'}))}. See `regard list`"
            )
        self.dim, self.heads, self.context_dim = dim, heads, context_dim or dim
        self.value_width, self.positions, self.has_bias = value_width, positions, bias

    @abstractmethod
    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        """(b, q, dim) to queries (b, h, q, ·)."""

    @abstractmethod
    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        """(b, k, context_dim) to keys (b, h, k, ·) and values (b, h, k, value_width)."""

    @abstractmethod
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        """Scores of projected queries against projected keys."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of self-attention."""
        return self.project_query(x, position_ids), *self.project_kv(x, position_ids)

    def cost(self, n: int, m: int | None = None) -> Cost:
        """Cost for n queries and m keys; m is n by default. Scores of all pairs are products of `score_width`."""
        m = n if m is None else m
        scores = 2 * self.heads * n * m * (self.score_width + self.value_width)
        return Cost(self.num_params(), self.projection_flops(n, m) + scores, 4 * self.heads * n * m)

    def projection_flops(self, n: int, m: int) -> int:
        """FLOPs of the projections of queries, keys and values."""
        u, v = self.score_width, self.value_width
        return 2 * self.heads * (n * self.dim * u + m * self.context_dim * (u + v))

    def num_params(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def position_bias(self, qk_positions: QueryKeyPositions) -> Tensor | None:
        """What the positions add to the scores; broadcasts to (b, h, q, k)."""
        return self.positions.bias(qk_positions.q_pos, qk_positions.k_pos)

    def value_projection(self) -> nn.Linear:
        """W_V of all heads in one matrix."""
        return xavier_linear(self.context_dim, self.heads * self.value_width, self.has_bias)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(b, n, h·d) to (b, h, n, d)."""
    b, n, _ = x.shape
    return x.view(b, n, heads, -1).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(b, h, n, d) to (b, n, h·d)."""
    return x.transpose(1, 2).flatten(2)


def xavier_linear(in_features: int, out_features: int, bias: bool) -> nn.Linear:
    """A linear layer with Xavier-uniform weights (Glorot & Bengio 2010) and zero bias.

    All mechanisms use it, so that compared mechanisms differ in their scores only.
    """
    linear = nn.Linear(in_features, out_features, bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


class PackedLinear(nn.Module):
    """Several projections of one input in one matrix.

    Args:
        dim: Width of the input.
        widths: Width of each projection.
        bias: Whether the projections have biases.
    """

    def __init__(self, dim: int, widths: tuple[int, ...], bias: bool = True):
        super().__init__()
        self.widths = widths
        self.weight = nn.Parameter(torch.empty(sum(widths), dim))
        self.bias = nn.Parameter(torch.zeros(sum(widths))) if bias else None
        for part in self.weight.split(widths):
            nn.init.xavier_uniform_(part)
        if len(set(widths)) == 1:  # Muon orthogonalizes each projection, not the packed matrix
            self.weight.muon_splits = len(widths)  # type: ignore[attr-defined]

    def all(self, x: Tensor) -> tuple[Tensor, ...]:
        """All projections of x."""
        return nn.functional.linear(x, self.weight, self.bias).split(self.widths, -1)

    def some(self, x: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Projections first..last-1 of x."""
        start, stop = sum(self.widths[:first]), sum(self.widths[:last])
        bias = None if self.bias is None else self.bias[start:stop]
        return nn.functional.linear(x, self.weight[start:stop], bias).split(self.widths[first:last], -1)
