"""Gated feed-forward net (Shazeer 2020, GLU Variants Improve Transformer, eq. 6; T5 1.1 uses it with GELU).

W_2 (act(W_gate x) * W_1 x)
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from regard.layers.dropout import Dropout


class GatedFeedForward(nn.Module):
    """W_2 (act(W_gate x) * W_1 x), with dropout before W_2. Arguments as for `FeedForward`."""

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        activation: Callable[[Tensor], Tensor] = nn.functional.gelu,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        self.gate, self.up = nn.Linear(dim, hidden, bias), nn.Linear(dim, hidden, bias)
        self.down = nn.Linear(hidden, dim, bias)
        self.activation, self.dropout = activation, Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))
