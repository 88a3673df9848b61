"""Local attention: the scaled dot product restricted to neighbours (Vaswani et al. 2017, section 4: "restricted" to r).

    score = (W_Q x)·(W_K m) / sqrt(d_k)    where |i - j| <= window, and nothing elsewhere

In blocks (regard/banded.py), so time and memory grow linearly with n; what is further apart meets through
(n - 1) / window layers. A decoding step remembers `window` keys and no more.
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.cost import Cost
from regard.attention.mechanisms.qkv_projection import QKV
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Scores
from regard.attention.token_positions import QueryKeyPositions
from regard.attention.window import WindowScores, cut
from regard.config.validation import check_positive


class LocalMechanism(QKV):
    name = "local"
    title = "local, within a window"
    citation = "Vaswani et al. 2017, section 4; in blocks as Beltagy et al. 2020, Longformer, section 3.2"
    reason = "long texts: cost grows linearly with the length, and a step of generation costs always the same"
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
        window: int = 64,
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
        self.window = self.max_lookback = window

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        bias = self.positions.on(qk_positions.q_pos) if self.positions.kind == "bias" else None
        return WindowScores(query, keys, qk_positions, self.scale, self.window, bias, self.positions.by_distance)

    def cost(self, n: int, m: int | None = None) -> Cost:
        """As run: blocks hold some pairs beyond the window, and short sequences all pairs."""
        m = n if m is None else m
        blocks = cut(range(n), range(m), self.window, causal=False)
        pairs = n * m if blocks is None else min(n * m, blocks.pairs)
        flops = self.projecting(n, m) + 2 * self.heads * pairs * (self.key_width + self.value_width)
        return Cost(self.params(), flops, 4 * self.heads * pairs, path=max(1, -(-(n - 1) // self.window)))
