"""Random Synthesizer (Tay et al. 2020, section 3): the scores are parameters, the same for every input.

score = R[i, j]                     for each head; positions i and j below `length`; trained or fixed
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.lookup import select_columns, select_rows
from regard.attention.mechanisms.synthesizer import Synthesizer
from regard.attention.scores import DenseScores, Scores
from regard.attention.token_positions import QueryKeyPositions


class RandomSynthesizer(Synthesizer):
    """Scores from a table over query and key positions.

    Args:
        dim: Width of the input.
        heads: Number of heads.
        trained: Whether the table is trained. False leaves it random.
        **options: Options of `Synthesizer`.
    """

    name = "synthesizer-random"
    title = "Synthesizer, random"
    citation = "Tay et al. 2020, Synthesizer: Rethinking Self-Attention in Transformer Models, 3 (Random)"
    reason = "attention that ignores the input: measures how much of a result is due to content"

    score_width = 0

    def __init__(self, dim: int, heads: int, *, trained: bool = True, **options: Any):
        super().__init__(dim, heads, **options)
        self.v = self.value_projection()
        table = torch.randn(heads, self.length, self.length)
        self.table: Tensor
        if trained:
            self.table = nn.Parameter(table)
        else:
            self.register_buffer("table", table)  # saved, because it is random

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        rows = select_rows(self.table, qk_positions.q_pos)  # (h, q, length) or (b, h, q, length)
        logits = select_columns(rows if rows.dim() == 4 else rows[None], qk_positions.k_pos)
        return DenseScores(logits.expand(query.shape[0], -1, -1, -1), qk_positions)
