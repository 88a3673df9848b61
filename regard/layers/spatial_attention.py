"""Attention over images and feature maps, whose positions have two axes.

    (b, height, width, dim)  ->  (b, height · width, dim)  ->  any mechanism  ->  (b, height, width, dim)

The softmax is over all (y, x). With states (b, q, dim) as queries and a grid as context it is the attention of image
captioning: Xu et al. 2015 use additive scores (mechanism "additive"); softmax over (x, y) of h W^key M[x, y] is
"bilinear". A grid of height 1 gives the same result as a sequence.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention


class SpatialAttention(nn.Module):
    """Self-attention over a grid, `layer(grid)`, or attention from states to a grid, `layer(states, grid)`.

    Positions that are added to embeddings (axial) belong at the input of the model:
    `positions.embed(grid.flatten(1, 2), Grid(height, width))`.

    Args:
        dim: Width of the input and of the output.
        heads: Number of heads.
        mechanism: Name with options, such as "local-2d:window=3", or a Mechanism.
        positions: Position encoding inside attention, such as "relative-2d".
        **options: Further arguments of `MultiHeadAttention`.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        mechanism: str | Mechanism = "dot",
        *,
        positions: str | PositionEncoding | None = None,
        **options: Any,
    ):
        super().__init__()
        self.attention = MultiHeadAttention(dim, heads, mechanism, positions=positions, **options)

    def forward(
        self,
        x: Tensor,
        context: Tensor | KVCache | None = None,
        *,
        key_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """Attend from x to itself, or to a grid.

        Args:
            x: A grid (b, height, width, dim), or with a context also states (b, q, dim).
            context: A grid (b, height, width, context_dim), or the result of `project_kv`.
            key_mask: Grid cells that may be attended to, (b, height, width) bool.
            attn_mask: Allowed pairs over flattened cells, as for `MultiHeadAttention`.
            causal: Hide later cells in reading order, row by row.

        Returns:
            A tensor like x.
        """
        if x.dim() != 4 and (context is None or x.dim() != 3):
            raise UserError(
                f"spatial attention takes a grid (batch, height, width, dim), or states (batch, queries, dim) and a "
                f"grid as context; given shape {tuple(x.shape)}"
            )
        if isinstance(context, Tensor):
            context, key_mask = self.project_kv(context, key_mask=key_mask), None
        is_grid = x.dim() == 4
        out = self.attention(
            x.flatten(1, 2) if is_grid else x,
            context,
            key_mask=_flatten_mask(key_mask),
            attn_mask=attn_mask,
            causal=causal,
            position_ids=Grid(x.shape[1], x.shape[2]) if is_grid else None,
            query_axis="grid" if is_grid else "tokens",
            key_axis="grid",
        )
        return out.unflatten(1, x.shape[1:3]) if is_grid else out

    def project_kv(self, context: Tensor, *, key_mask: Tensor | None = None) -> KVCache:
        """Compute keys and values of a grid once, for many calls of `forward`.

        Args:
            context: (b, height, width, context_dim).
            key_mask: Grid cells that may be attended to, (b, height, width) bool.
        """
        if context.dim() != 4:
            raise UserError(f"a grid has shape (batch, height, width, dim); given {tuple(context.shape)}")
        grid = Grid(context.shape[1], context.shape[2])
        return self.attention.project_kv(context.flatten(1, 2), key_mask=_flatten_mask(key_mask), position_ids=grid)


def _flatten_mask(key_mask: Tensor | None) -> Tensor | None:
    """(b, height, width) to (b, height · width)."""
    if key_mask is None:
        return None
    if key_mask.dim() != 3:
        raise UserError(
            f"the key_mask of a grid has shape (batch, height, width), True for 'may attend'; given "
            f"{tuple(key_mask.shape)}. Pass a mask over pairs of query and key as attn_mask"
        )
    return key_mask.flatten(1)
