"""Local attention in two dimensions: the scaled dot product restricted to a neighbourhood of a picture.

    score = (W_Q x)·(W_K m) / sqrt(d_k)    where |dy| <= window and |dx| <= window, and nothing elsewhere

In tiles (regard/tiled.py), so the cost grows linearly with the number of places. A plain sequence is a picture of
height 1, and there it is the same as "local".
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.cost import Cost
from regard.attention.mechanisms.qkv_projection import QKV
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Scores
from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.attention.window import WindowScores
from regard.attention.window import cut as cut_blocks
from regard.attention.window_2d import Window2dScores
from regard.config.validation import check_positive


class Local2dMechanism(QKV):
    name = "local-2d"
    title = "local, within a neighbourhood of a picture"
    citation = "Parmar et al. 2018, Image Transformer, section 3.3"
    reason = "pictures: each place regards its neighbours on all sides, at a cost linear in the number of places"
    accepts = frozenset({"none", "embed", "rotate", "bias"})
    supports_cross_attention = False
    order_sensitive = True

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        context_dim: int | None = None,
        value_width: int | None = None,
        positions: PositionEncoding | None = None,
        bias: bool = True,
        key_width: int | None = None,
        window: int = 3,
    ):
        check_positive(self.name, window=window)
        super().__init__(
            dim,
            heads,
            context_dim=context_dim,
            value_width=value_width,
            positions=positions,
            bias=bias,
            key_width=key_width,
        )
        self.window = window

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        bias = self.positions.on(qk_positions.q_pos) if self.positions.kind == "bias" else None
        if isinstance(qk_positions.q_pos, Grid) and qk_positions.q_pos == qk_positions.k_pos:
            return Window2dScores(query, keys, qk_positions, qk_positions.q_pos, self.scale, self.window, bias)
        return WindowScores(query, keys, qk_positions, self.scale, self.window, bias, self.positions.by_distance)

    def cost(self, n: int, m: int | None = None) -> Cost:
        """For a plain sequence, a picture of height 1."""
        m = n if m is None else m
        blocks = cut_blocks(range(n), range(m), self.window, causal=False)
        pairs = n * m if blocks is None else min(n * m, blocks.pairs)
        flops = self.projecting(n, m) + 2 * self.heads * pairs * (self.key_width + self.value_width)
        return Cost(self.params(), flops, 4 * self.heads * pairs, path=max(1, -(-(n - 1) // self.window)))
