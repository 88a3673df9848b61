"""Local attention: the scaled dot product within a window (Vaswani et al. 2017, section 4: "restricted" to r).

    score = (W_Q x)·(W_K c) / sqrt(d_k)    where |i - j| <= window; other keys are masked

Computed in blocks (attention/window.py), so time and memory grow linearly with n. Positions further apart than the
window are connected through several layers, at most (n - 1) / window. A decoding step caches `window` keys.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.attention.cost import Cost
from regard.attention.mechanisms.qkv_projection import QKVMechanism
from regard.attention.scores import Scores
from regard.attention.token_positions import QueryKeyPositions
from regard.attention.window import WindowScores, split_blocks
from regard.config.validation import check_positive


class LocalMechanism(QKVMechanism):
    """Dot-product attention within a window.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        window: Largest distance between query and key.
        **options: Options of `QKVMechanism`.
    """

    name = "local"
    title = "local, within a window"
    citation = "Vaswani et al. 2017, section 4; in blocks as Beltagy et al. 2020, Longformer, section 3.2"
    reason = "long texts: cost grows linearly with the length, and the cost of a generation step is constant"
    accepts = frozenset({"none", "embed", "rotate", "bias"})
    supports_cross_attention = False
    order_sensitive = True

    def __init__(self, dim: int, heads: int, *, window: int = 64, **options: Any):
        check_positive(self.name, window=window)
        super().__init__(dim, heads, **options)
        self.window = self.max_lookback = window

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        bias = self.positions.bias_fn(qk_positions.q_pos) if self.positions.kind == "bias" else None
        distance_only = self.positions.distance_only
        return WindowScores(query, keys, qk_positions, self.scale, self.window, bias, distance_only)

    def cost(self, n: int, m: int | None = None) -> Cost:
        """Cost as run: blocks hold some pairs outside the window, and short sequences all pairs."""
        m = n if m is None else m
        blocks = split_blocks(range(n), range(m), self.window, causal=False)
        pairs = n * m if blocks is None else min(n * m, blocks.num_pairs)
        flops = self.projection_flops(n, m) + 2 * self.heads * pairs * (self.key_width + self.value_width)
        return Cost(self.num_params(), flops, 4 * self.heads * pairs, path=max(1, -(-(n - 1) // self.window)))
