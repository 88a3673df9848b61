"""Integrated gradients (Sundararajan et al. 2017, eq. 1) of a picture: what each of its points adds to an output, along
the straight way from a picture that shows nothing.

    a_yx = Σ_c (p - b)_yxc · ∫₀¹ ∂s(b + α (p - b))/∂p_yxc dα                Σ_yx a_yx = s(p) - s(b)

The integral is the mean over the middles of equal steps, as in `regard.inspect.integrated_gradients`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def picture_gradients(
    picture: Tensor,
    base: Tensor,
    score: Callable[[Tensor], Tensor],
    *,
    steps: int = 20,
    rows: int = 10,
) -> Tensor:
    """(questions, height, width) of one picture (height, width, channels): `score` gives the outputs asked about,
    (b, questions), of pictures (b, height, width, channels). `rows` steps are taken at once."""
    way, total = picture - base, None
    for part in ((torch.arange(steps) + 0.5) / steps).split(rows):
        with torch.enable_grad():
            x = (base + part[:, None, None, None] * way).requires_grad_()
            said = score(x).sum(0)
            slopes = [torch.autograd.grad(one, x, retain_graph=True)[0].sum(0) for one in said]
        found = torch.stack(slopes)
        total = found if total is None else total + found
    assert total is not None
    return (total / steps * way).sum(-1).detach()
