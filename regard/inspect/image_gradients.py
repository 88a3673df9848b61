"""Integrated gradients (Sundararajan et al. 2017, eq. 1) of an image: what each pixel adds to an output, along the
straight line from a baseline image.

    a_yx = Σ_c (p - b)_yxc · ∫₀¹ ∂s(b + α (p - b))/∂p_yxc dα                Σ_yx a_yx = s(p) - s(b)

The integral is the mean over the midpoints of equal steps, as in `regard.inspect.integrated_gradients`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def image_gradients(
    image: Tensor,
    baseline: Tensor,
    score_fn: Callable[[Tensor], Tensor],
    *,
    steps: int = 20,
    batch_size: int = 10,
) -> Tensor:
    """Attribute scores to the pixels of one image.

    Args:
        image: (height, width, channels).
        baseline: An image without information, of the same shape.
        score_fn: Maps images (b, height, width, channels) to scores (b, targets).
        steps: Midpoints of the integral.
        batch_size: Steps per forward pass.

    Returns:
        (targets, height, width).
    """
    difference, total = image - baseline, None
    for alpha in ((torch.arange(steps) + 0.5) / steps).split(batch_size):
        with torch.enable_grad():
            x = (baseline + alpha[:, None, None, None] * difference).requires_grad_()
            scores = score_fn(x).sum(0)
            gradients = torch.stack([torch.autograd.grad(s, x, retain_graph=True)[0].sum(0) for s in scores])
        total = gradients if total is None else total + gradients
    assert total is not None
    return (total / steps * difference).sum(-1).detach()
