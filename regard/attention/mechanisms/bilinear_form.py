"""Scores against the memory as it is, with no matrix for the keys: what bilinear and merged scores share.

    score = xᵀ W_h m + u_h · m = (W_hᵀ x + u_h) · m

The query takes on the memory's width and meets the memory itself, which all heads share: keys are (b, 1, k,
context_dim).
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import split_heads
from regard.attention.scores import DenseScores, DotScores, Scores
from regard.attention.token_positions import QueryKeyPositions


def matrices(dim: int, context_dim: int, heads: int, key_bias: bool) -> nn.Linear:
    """x to every W_hᵀ x + u_h, (..., heads · context_dim). Scores start with a variance of one at inputs of variance
    one, as those of scaled dot products do."""
    linear = nn.Linear(dim, heads * context_dim, key_bias)
    nn.init.normal_(linear.weight, std=(dim * context_dim) ** -0.5)
    if key_bias:
        nn.init.zeros_(linear.bias)
    return linear


def towards(linear: nn.Linear, x: Tensor, heads: int) -> Tensor:
    """Queries of the memory's width, (b, h, q, context_dim)."""
    return split_heads(linear(x), heads)


def against(
    query: Tensor, memory: Tensor, value_width: int, bias: Tensor | None, qk_positions: QueryKeyPositions
) -> Scores:
    """Query (b, h, q, d) against memory (b, 1, k, d)."""
    b, h, q, d = query.shape
    if d == value_width:
        return DotScores(query, memory.expand(b, h, -1, -1), qk_positions, scale=1.0, bias=bias)
    # Keys wider than values leave the fused kernel; one product for all heads then needs no copies of the memory.
    logits = (query.reshape(b, h * q, d) @ memory[:, 0].transpose(1, 2)).view(b, h, q, -1)
    return DenseScores(logits if bias is None else logits + bias.to(logits.dtype), qk_positions)


def work(n: int, m: int, dim: int, context_dim: int, heads: int, value_width: int) -> int:
    """FLOPs of the queries, the scores and the reading; the values' own matrix is not among them."""
    return 2 * heads * n * (dim * context_dim + m * (context_dim + value_width))
