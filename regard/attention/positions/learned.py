"""Learned positions (Gehring et al. 2017; BERT and GPT-2): a trained vector for each place, up to a maximal length."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.lookup import rows, within
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive


class Learned(PositionEncoding):
    name, title, kind = "learned", "learned (Gehring 2017)", "embed"

    def __init__(self, dim: int, heads: int, *, length: int = 512):
        super().__init__(dim, heads)
        check_positive("learned positions", length=length)
        self.length = length
        self.table = nn.Parameter(torch.randn(length, dim) * 0.02)  # as BERT and GPT-2 start them

    def embed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        within(position_ids, self.length, "learned positions")
        return x + rows(self.table, position_ids).to(x.dtype)
