"""Pooling by attention: a weighted mean of a sequence, with scores that need no query.

    A = softmax(W_2 tanh(W_1 Hᵀ))    M = A H            (Lin et al. 2017, eqs. 6 and 7; r hops)

With one hop and a bias in W_1 it is the word and sentence attention of Yang et al. 2016 (eqs. 5-7), where W_2 is called
the context vector. The penalty on similar hops is P = ‖A Aᵀ - I‖²_F (Lin 2017, eq. 8).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.masks import Mask, check_key_mask
from regard.attention.scores import Attend, DenseScores
from regard.attention.token_positions import QueryKeyPositions
from regard.config.validation import check_positive


class AttentionPooling(nn.Module):
    """Pool a sequence (b, n, dim) to (b, hops, dim).

    Args:
        dim: Width of the input.
        hidden: Width of the tanh layer. Default: dim.
        hops: Number of weighted means.
        bias: Whether W_1 has a bias.
    """

    def __init__(self, dim: int, hidden: int | None = None, hops: int = 1, *, bias: bool = True):
        super().__init__()
        check_positive("attention pooling", dim=dim, hidden=hidden, hops=hops)
        hidden = hidden or dim
        self.project = nn.Linear(dim, hidden, bias)
        self.context = nn.Linear(hidden, hops, bias=False)
        self.attend = Attend()

    def forward(
        self, x: Tensor, key_mask: Tensor | None = None, qk_positions: QueryKeyPositions | None = None
    ) -> tuple[Tensor, DenseScores]:
        """Pool each sequence of the batch.

        Args:
            x: (b, n, dim).
            key_mask: False for padding, (b, n) bool.
            qk_positions: Positions and axis labels for inspection. Default: hops over tokens.

        Returns:
            The pooled vectors (b, hops, dim), and the scores, for a penalty on the weights.
        """
        (b, n, _), hops, mask = x.shape, self.context.out_features, None
        if key_mask is not None:
            check_key_mask(key_mask, b, n)
            mask = Mask(key_mask=key_mask)
            x = x.masked_fill(~key_mask[..., None], 0.0)
        logits = self.context(torch.tanh(self.project(x))).transpose(1, 2)[:, None]  # (b, 1, hops, n)
        scores = DenseScores(logits, qk_positions or QueryKeyPositions(range(hops), range(n), query_axis="hops"))
        return self.attend(scores, x[:, None], mask)[:, 0], scores

    def cost(self, n: int) -> Cost:
        """Cost for a sequence of n tokens."""
        (hidden, dim), hops = self.project.weight.shape, self.context.out_features
        params = sum(p.numel() for p in self.parameters())
        return Cost(params, 2 * n * (dim * hidden + hidden * hops + hops * dim), 4 * hops * n)


def hop_penalty(weights: Tensor) -> Tensor:
    """P = ‖A Aᵀ - I‖²_F of each example, a penalty on hops with similar weights: (b, 1, hops, n) to (b,)."""
    a = weights.flatten(0, 1)
    eye = torch.eye(a.shape[1], device=a.device, dtype=a.dtype)
    return (a @ a.transpose(1, 2) - eye).square().sum((1, 2))


def hop_kl(weights: Tensor) -> Tensor:
    """Mean KL(hop_i ‖ hop_j) over all pairs i ≠ j of each example: (b, 1, hops, n) to (b,).

    Lin et al. 2017 considered it as an alternative to the penalty. Larger means less similar, so as a penalty it has a
    minus sign. It has no upper bound; a weight of zero counts as the smallest normal number.
    """
    a = weights.flatten(0, 1)
    r = a.shape[1]
    log = a.clamp(min=torch.finfo(a.dtype).tiny).log()
    cross = a @ log.transpose(1, 2)  # Σ_k p_i log p_j, (b, r, r)
    own = cross.diagonal(dim1=1, dim2=2)
    return (r * own.sum(1) - cross.sum((1, 2))) / max(1, r * (r - 1))
