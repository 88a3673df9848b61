"""Learned positions (Gehring et al. 2017; BERT and GPT-2): a trained vector for each position, up to a length."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.lookup import check_range, select_rows
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive


class Learned(PositionEncoding):
    """A trained vector for each position, added to the embeddings.

    Args:
        dim: Width of the model.
        heads: Number of heads.
        length: Maximal length.
    """

    name, title, kind = "learned", "learned (Gehring 2017)", "embed"

    def __init__(self, dim: int, heads: int, *, length: int = 512):
        super().__init__(dim, heads)
        check_positive("learned positions", length=length)
        self.length = length
        self.table = nn.Parameter(torch.randn(length, dim) * 0.02)  # initialized as in BERT and GPT-2

    def embed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        check_range(position_ids, self.length, "learned positions")
        return x + select_rows(self.table, position_ids).to(x.dtype)
