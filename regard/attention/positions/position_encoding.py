"""What every kind of position offers. Each does one of three things and leaves the other two alone:

embed    adds something to the embeddings at the model's input
rotate   turns queries and keys before they are compared
bias     adds something to the scores
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from torch import Tensor, nn

from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive


class PositionEncoding(nn.Module):
    """One per model (embed) or one shared by its layers (rotate, bias). `dim` is the model's width, `heads` its
    heads."""

    name: ClassVar[str]
    title: ClassVar[str]
    kind: ClassVar[Literal["none", "embed", "rotate", "bias"]]
    by_distance: ClassVar[bool] = False
    """Whether the bias depends on key - query alone, so that a band of scores needs it only once."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        check_positive(f"{self.name} positions", dim=dim, heads=heads)
        self.dim, self.heads = dim, heads

    @property
    def inside(self) -> bool:
        """Whether they act inside attention, and so must be given to every layer."""
        return self.kind in ("rotate", "bias")

    def check_width(self, key_width: int) -> None:
        """Whether queries and keys of this width can be turned; an error says what could."""

    def embed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        """Embeddings (b, n, dim) that know where they stand."""
        return x

    def rotate(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        """Queries or keys (b, h, n, d), turned by where they stand."""
        return x

    def bias(self, q_pos: PositionIds, k_pos: PositionIds) -> Tensor | None:
        """What is added to the scores, broadcastable to (b, h, q, k)."""
        return None

    def on(self, position_ids: PositionIds) -> Callable[[PositionIds, PositionIds], Tensor | None]:
        """`bias` for some of these places, which are counted from the first: on a picture, through its rows."""
        return self.bias
