"""Attention over pictures: a grid is a memory whose places lie in two axes.

    (b, height, width, dim)  ->  (b, height · width, dim)  ->  any mechanism  ->  (b, height, width, dim)

Softmax is over all (y, x). With states (b, q, dim) as queries and a grid as memory it is the attention of captioning:
Xu et al. 2015 score by a small net (mechanism "additive"); softmax over (x, y) of h W^key M[x, y] is "bilinear". A grid
of height 1 is the layer on a sequence.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import Mask
from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention


class SpatialAttention(nn.Module):
    """`SpatialAttention(64, 4)(grid)` is self-attention of a picture; `(states, grid)` looks at one; `(grid, grid)` too.

    Positions that embed (axial) are added where a model reads its input, as everywhere:
    `positions.embed(grid.flatten(1, 2), Grid(height, width))`.
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
        memory: Tensor | KVCache | None = None,
        *,
        mask: Mask | Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """x a grid (b, height, width, dim) or, with a memory, states (b, q, dim); mask (b, height, width) says which
        places of what is regarded are real. causal means in the order of reading, row by row."""
        if x.dim() != 4 and (memory is None or x.dim() != 3):
            raise UserError(
                f"spatial attention takes a grid (batch, height, width, dim), or states (batch, queries, dim) and a "
                f"grid as memory; given shape {tuple(x.shape)}"
            )
        position_ids = Grid(x.shape[1], x.shape[2]) if x.dim() == 4 else None
        flat, rows = (x.flatten(1, 2), "grid") if x.dim() == 4 else (x, "tokens")
        if isinstance(memory, Tensor):
            memory, mask = self.project_kv(memory, mask=mask), None
        out = self.attention(
            flat, memory, mask=_flat(mask), causal=causal, position_ids=position_ids, query_axis=rows, key_axis="grid"
        )
        return out.unflatten(1, x.shape[1:3]) if x.dim() == 4 else out

    def project_kv(self, memory: Tensor, *, mask: Mask | Tensor | None = None) -> KVCache:
        """Read a grid (b, height, width, context_dim) once, to be regarded many times."""
        if memory.dim() != 4:
            raise UserError(f"a grid is (batch, height, width, dim); given shape {tuple(memory.shape)}")
        grid = Grid(memory.shape[1], memory.shape[2])
        return self.attention.project_kv(memory.flatten(1, 2), mask=_flat(mask), position_ids=grid)


def _flat(mask: Mask | Tensor | None) -> Mask | Tensor | None:
    """A mask of places (b, height, width) as one of keys (b, height · width)."""
    if isinstance(mask, Tensor):
        if mask.dim() != 3:
            raise UserError(
                f"the mask of a grid is (batch, height, width), True for what may be seen; given shape "
                f"{tuple(mask.shape)}. For pairs of places pass regard.attention.masks.Mask(attn_mask=...)"
            )
        return mask.flatten(1)
    return mask
