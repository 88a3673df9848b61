"""Base class of all position encodings. Each kind implements one of three methods:

embed    adds a vector to the embeddings at the input of the model
rotate   rotates queries and keys before they are compared
bias     adds a number to the scores
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from torch import Tensor, nn

from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive


class PositionEncoding(nn.Module):
    """Position encoding of a model: one at its input (embed), or one that its attention layers share (rotate, bias).

    Class attributes:
        name: Name in settings and on the command line.
        title: Readable name for `regard list`.
        kind: "none", "embed", "rotate" or "bias".
        distance_only: Whether the bias depends on key - query only, so that window kernels compute it once.

    Args:
        dim: Width of the model.
        heads: Number of heads.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    kind: ClassVar[Literal["none", "embed", "rotate", "bias"]]
    distance_only: ClassVar[bool] = False

    def __init__(self, dim: int, heads: int):
        super().__init__()
        check_positive(f"{self.name} positions", dim=dim, heads=heads)
        self.dim, self.heads = dim, heads

    @property
    def in_attention(self) -> PositionEncoding | None:
        """Itself if attention layers apply it (rotate, bias); None if it acts on the embeddings only."""
        return self if self.kind in ("rotate", "bias") else None

    def check_key_width(self, key_width: int) -> None:
        """Raise UserError if queries and keys of this width cannot be rotated."""

    def embed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        """Add positions to embeddings (b, n, dim)."""
        return x

    def rotate(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        """Rotate queries or keys (b, h, n, d) by their positions."""
        return x

    def bias(self, q_pos: PositionIds, k_pos: PositionIds) -> Tensor | None:
        """Bias that is added to the scores; broadcasts to (b, h, q, k)."""
        return None

    def bias_fn(self, position_ids: PositionIds) -> Callable[[PositionIds, PositionIds], Tensor | None]:
        """`bias` for subsets of these positions, given as indices. On a grid they are counted row by row."""
        return self.bias
