"""Pooling by attention: scores without a query.

    A = softmax(W_2 tanh(W_1 Hᵀ))    M = A H            (Lin et al. 2017, eqs. 6 and 7; r hops)

With one hop and a bias in W_1 it is the word and sentence attention of Yang et al. 2016 (eqs. 5-7), whose context
vector is W_2. The penalty against hops that look alike is P = ‖A Aᵀ - I‖²_F (Lin 2017, eq. 8).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.masks import Mask, as_mask
from regard.attention.scores import Attend, DenseScores
from regard.attention.token_positions import QueryKeyPositions
from regard.config.validation import check_positive


class AttentionPooling(nn.Module):
    """(b, n, dim) to (b, hops, dim), with the scores it used, so that a penalty can be put on its weights."""

    def __init__(self, dim: int, hidden: int | None = None, hops: int = 1, *, bias: bool = True):
        super().__init__()
        check_positive("pooling", dim=dim, hidden=hidden, hops=hops)
        hidden = hidden or dim
        self.project = nn.Linear(dim, hidden, bias)
        self.context = nn.Linear(hidden, hops, bias=False)
        self.attend = Attend()

    def forward(
        self, x: Tensor, mask: Tensor | None = None, qk_positions: QueryKeyPositions | None = None
    ) -> tuple[Tensor, DenseScores]:
        """mask (b, n): True for what is real."""
        (b, n, _), hops, real = x.shape, self.context.out_features, None
        if mask is not None:
            real = as_mask(Mask(key_mask=mask), causal=False, b=b, q=hops, k=n)
            x = x.masked_fill(~mask[..., None], 0.0)
        logits = self.context(torch.tanh(self.project(x))).transpose(1, 2)[:, None]  # (b, 1, hops, n)
        scores = DenseScores(logits, qk_positions or QueryKeyPositions(range(hops), range(n), query_axis="hops"))
        return self.attend(scores, x[:, None], real)[:, 0], scores

    def cost(self, n: int) -> Cost:
        (hidden, dim), hops = self.project.weight.shape, self.context.out_features
        params = sum(p.numel() for p in self.parameters())
        return Cost(params, 2 * n * (dim * hidden + hidden * hops + hops * dim), 4 * hops * n)


def hop_penalty(weights: Tensor) -> Tensor:
    """P = ‖A Aᵀ - I‖²_F for each example; weights (b, 1, r, n) -> (b,)."""
    a = weights.flatten(0, 1)
    eye = torch.eye(a.shape[1], device=a.device, dtype=a.dtype)
    return (a @ a.transpose(1, 2) - eye).square().sum((1, 2))


def hop_kl(weights: Tensor) -> Tensor:
    """The mean of KL(hop_i ‖ hop_j) over all pairs i ≠ j, for each example; weights (b, 1, r, n) -> (b,).

    The other measure of how hops differ, which Lin et al. 2017 weighed and set aside: greater means less alike, so as a
    penalty it enters with a minus. It has no bound; here a weight of zero counts as the smallest normal number.
    """
    a = weights.flatten(0, 1)
    r = a.shape[1]
    log = a.clamp(min=torch.finfo(a.dtype).tiny).log()
    cross = a @ log.transpose(1, 2)  # Σ_k p_i log p_j, (b, r, r)
    own = cross.diagonal(dim1=1, dim2=2)
    return (r * own.sum(1) - cross.sum((1, 2))) / max(1, r * (r - 1))
