"""Local attention in two dimensions: the scaled dot product within a neighbourhood of an image.

    score = (W_Q x)·(W_K c) / sqrt(d_k)    where |dy| <= window and |dx| <= window; other keys are masked

Computed in tiles (attention/window_2d.py), so the cost grows linearly with the number of positions. A sequence is an
image of height 1, where it equals "local".
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.attention.mechanisms.local import LocalMechanism
from regard.attention.scores import Scores
from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.attention.window_2d import Window2dScores


class Local2dMechanism(LocalMechanism):
    """Dot-product attention within a neighbourhood of an image. `cost` is that of a sequence, an image of height 1.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        window: Largest distance between query and key along each axis.
        **options: Options of `QKVMechanism`.
    """

    name = "local-2d"
    title = "local, within a neighbourhood of an image"
    citation = "Parmar et al. 2018, Image Transformer, section 3.3"
    reason = "images: each position attends to its neighbours on all sides, at a cost linear in the number of positions"

    def __init__(self, dim: int, heads: int, *, window: int = 3, **options: Any):
        super().__init__(dim, heads, window=window, **options)
        self.max_lookback = None

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        grid = qk_positions.q_pos
        if not isinstance(grid, Grid) or grid != qk_positions.k_pos:
            return super().score(query, keys, qk_positions)
        bias = self.positions.bias_fn(grid) if self.positions.kind == "bias" else None
        return Window2dScores(query, keys, qk_positions, grid, self.scale, self.window, bias)
