"""Scores against the memory as it is, with no matrix for the keys: what bilinear and merged scores share.

    score = xᵀ W_h m + u_h · m = (W_hᵀ x + u_h) · m

The query takes on the memory's width and meets the memory itself, which all heads share: keys are (b, 1, k,
memory_dim).
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import heads_apart
from regard.attention.scores import Dense, DotScores, Scores
from regard.attention.token_positions import Places


def matrices(dim: int, memory_dim: int, heads: int, key_bias: bool) -> nn.Linear:
    """x to every W_hᵀ x + u_h, (..., heads · memory_dim). Scores start with a variance of one at inputs of variance
    one, as those of scaled dot products do."""
    linear = nn.Linear(dim, heads * memory_dim, key_bias)
    nn.init.normal_(linear.weight, std=(dim * memory_dim) ** -0.5)
    if key_bias:
        nn.init.zeros_(linear.bias)
    return linear


def towards(linear: nn.Linear, x: Tensor, heads: int) -> Tensor:
    """Queries of the memory's width, (b, h, q, memory_dim)."""
    return heads_apart(linear(x), heads)


def against(query: Tensor, memory: Tensor, value_width: int, bias: Tensor | None, places: Places) -> Scores:
    """Query (b, h, q, d) against memory (b, 1, k, d)."""
    b, h, q, d = query.shape
    if d == value_width:
        return DotScores(query, memory.expand(b, h, -1, -1), places, scale=1.0, bias=bias)
    # Keys wider than values leave the fused kernel; one product for all heads then needs no copies of the memory.
    logits = (query.reshape(b, h * q, d) @ memory[:, 0].transpose(1, 2)).view(b, h, q, -1)
    return Dense(logits if bias is None else logits + bias.to(logits.dtype), places)


def work(n: int, m: int, dim: int, memory_dim: int, heads: int, value_width: int) -> int:
    """FLOPs of the queries, the scores and the reading; the values' own matrix is not among them."""
    return 2 * heads * n * (dim * memory_dim + m * (memory_dim + value_width))
