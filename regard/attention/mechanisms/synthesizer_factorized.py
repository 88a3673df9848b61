"""Factorized random Synthesizer (Tay et al. 2020, section 3): the table of scores is a product of two thin tables.

score = R_1[i] · R_2[j]             R_1, R_2 (length, rank) for each head; the paper uses rank 8
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.lookup import select_rows
from regard.attention.mechanisms.synthesizer import Synthesizer
from regard.attention.scores import DenseScores, Scores
from regard.attention.token_positions import QueryKeyPositions
from regard.config.validation import check_positive


class FactorizedSynthesizer(Synthesizer):
    """Scores from a low-rank table over query and key positions.

    Args:
        dim: Width of the input.
        heads: Number of heads.
        rank: Rank of the table of one head.
        **options: Options of `Synthesizer`.
    """

    name = "synthesizer-factorized"
    title = "Synthesizer, factorized random"
    citation = "Tay et al. 2020, Synthesizer: Rethinking Self-Attention in Transformer Models, 3 (Factorized)"
    reason = "the random Synthesizer with parameters that grow linearly with the length instead of quadratically"

    def __init__(self, dim: int, heads: int, *, rank: int = 8, **options: Any):
        super().__init__(dim, heads, **options)
        check_positive(self.name, rank=rank)
        self.rank = self.score_width = rank
        self.v = self.value_projection()
        std = rank**-0.25  # scores have variance one
        self.query_table = nn.Parameter(torch.randn(heads, self.length, rank) * std)
        self.key_table = nn.Parameter(torch.randn(heads, self.length, rank) * std)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        # One table for the whole batch, unless positions differ between rows.
        rows, columns = (
            select_rows(self.query_table, qk_positions.q_pos),
            select_rows(self.key_table, qk_positions.k_pos),
        )
        logits = rows @ columns.transpose(-2, -1)
        return DenseScores(logits.expand(query.shape[0], -1, -1, -1), qk_positions)
