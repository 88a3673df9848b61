"""What every mechanism is: keys and values of a memory, and the scores of queries against them.

A mechanism takes raw inputs and owns its projections and heads. The layer around it (`regard.layers.MultiHead`) asks

    query(x, at)            (b, q, dim)         -> (b, h, q, ·)          ready to be compared
    remember(x, at)         (b, k, context_dim)  -> keys (b, h, k, ·), values (b, h, k, value_width)
    both(x, at)             the two at once for self-attention, where one product can serve
    score(q, keys, places)  -> Scores
    cost(n, m)              -> Cost for n queries and m keys

Words that say where it is defined: `accepts`, the kinds of positions it can use; `cross`, whether it can regard a
memory other than its own sequence; `ordered`, whether the order of the memory matters even without positions;
`reach`, how many keys back a causal step can see, or None for all; `joined`, whether a matrix joins the heads after it.
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
    name: ClassVar[str]
    title: ClassVar[str]
    citation: ClassVar[str]
    reason: ClassVar[str]
    accepts: ClassVar[frozenset[str]] = frozenset({"none", "embed"})
    supports_cross_attention: ClassVar[bool] = True
    order_sensitive: ClassVar[bool] = False
    output_proj: ClassVar[bool] = True

    max_lookback: int | None = None

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
                near = [h for h in range(1, dim + 1) if dim % h == 0]
                best = min(near, key=lambda h: abs(h - heads))
                raise UserError(f"{heads} heads do not divide the width {dim}; {best} would, or give value_width")
            value_width = dim // heads
        positions = positions or NoPositions(dim, heads)
        if positions.kind not in self.accepts:
            raise UserError(
                f"mechanism {self.name!r} cannot use {positions.name!r} positions: it takes positions that "
                f"{' or '.join(sorted(self.accepts - {'none'}))}; see `regard list`"
            )
        self.dim, self.heads, self.context_dim = dim, heads, context_dim or dim
        self.value_width, self.positions = value_width, positions

    @abstractmethod
    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor: ...

    @abstractmethod
    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]: ...

    @abstractmethod
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores: ...

    @abstractmethod
    def cost(self, n: int, m: int | None = None) -> Cost: ...

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        return self.project_query(x, position_ids), *self.project_kv(x, position_ids)

    def params(self) -> int:
        return sum(p.numel() for p in self.parameters())


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(b, n, h·d) -> (b, h, n, d)."""
    b, n, _ = x.shape
    return x.view(b, n, heads, -1).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(b, h, n, d) -> (b, n, h·d)."""
    return x.transpose(1, 2).flatten(2)


class PackedLinear(nn.Module):
    """Several projections of one input in one matrix: all at once for self-attention, any of them alone otherwise."""

    def __init__(self, dim: int, widths: tuple[int, ...], bias: bool = True):
        super().__init__()
        self.widths = widths
        self.weight = nn.Parameter(torch.empty(sum(widths), dim))
        self.bias = nn.Parameter(torch.zeros(sum(widths))) if bias else None
        for part in self.weight.split(widths):
            nn.init.xavier_uniform_(part)
        if len(set(widths)) == 1:  # Muon orthogonalises each projection, not the pack
            self.weight.muon_splits = len(widths)  # type: ignore[attr-defined]

    def all(self, x: Tensor) -> tuple[Tensor, ...]:
        return nn.functional.linear(x, self.weight, self.bias).split(self.widths, -1)

    def some(self, x: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Projections first..last-1 of x."""
        start, stop = sum(self.widths[:first]), sum(self.widths[:last])
        bias = None if self.bias is None else self.bias[start:stop]
        return nn.functional.linear(x, self.weight[start:stop], bias).split(self.widths[first:last], -1)
