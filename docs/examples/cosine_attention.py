"""Cosine attention: the score is the cosine of query and key times a trained temperature.

    score = t_h · (q / ‖q‖) · (k / ‖k‖)                (Henry et al. 2020, Query-Key Normalization, eq. 7)

Use it with `regard train classify reviews.csv --model transformer --mechanism cosine --import cosine_attention.py`.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.attention.mechanisms.qkv_projection import QKVMechanism
from regard.attention.scores import DotScores
from regard.attention.token_positions import QueryKeyPositions


class CosineAttention(QKVMechanism):
    """Attention with normalized queries and keys.

    Args:
        dim: Width of the input.
        heads: Number of heads.
        temperature: Factor of the cosines at initialization.
        **options: Options of `QKVMechanism`.
    """

    name = "cosine"
    title = "cosine"
    citation = "Henry et al. 2020, Query-Key Normalization for Transformers, eq. 7"
    reason = "bounded scores: the width and the norm of queries and keys do not matter"
    accepts = frozenset({"none", "embed", "rotate", "bias"})

    def __init__(self, dim: int, heads: int, *, temperature: float = 10.0, **options):
        super().__init__(dim, heads, **options)
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), temperature))

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> DotScores:
        query, keys = self.temperature * normalize(query, dim=-1), normalize(keys, dim=-1)
        return DotScores(query, keys, qk_positions, scale=1.0, bias=self.position_bias(qk_positions))
