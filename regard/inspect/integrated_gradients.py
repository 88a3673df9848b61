"""Integrated gradients (Sundararajan et al. 2017, eq. 1): what each token adds to an output, along the straight line
from embeddings of zeros to the text.

    a_t = Σ_d e_td · ∫₀¹ ∂s(α e)/∂e_td dα                Σ_t a_t = s(e) - s(0)

The integral is the mean over the midpoints of equal steps.

The model receives a unique number instead of each token id, and hooks on its embeddings translate it back. So tokens
with the same id are distinguished, and the model may regroup its tokens. A model that does more with ids than look up
embeddings (such as hashing n-grams) is not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.inspect.evaluation_mode import evaluation_mode

OFFSET = 1 << 40
"""The first unique token number: above all ids."""


def integrated_gradients(
    model: nn.Module,
    ids: Tensor,
    score_fn: Callable[[Tensor], Tensor],
    *,
    steps: int = 20,
    batch_size: int = 10,
) -> Tensor | None:
    """Attribute scores to the tokens of one text.

    Args:
        model: Its `nn.Embedding` layers are hooked.
        ids: Token ids, (n,).
        score_fn: Runs the model on ids (b, n) and returns scores, (b,) or (b, targets).
        steps: Midpoints of the integral.
        batch_size: Steps per forward pass.

    Returns:
        (n,) or (targets, n); None if the model needs more of its ids than their embeddings.
    """
    n = len(ids)
    with torch.no_grad():
        expected = score_fn(ids[None])
    total: Tensor | None = None
    try:
        with torch.no_grad(), _scaled_embeddings(model, ids, torch.ones(1)):
            actual = score_fn(torch.arange(n)[None] + OFFSET)
        if not torch.allclose(actual, expected, rtol=1e-3, atol=1e-4):
            return None
        midpoints = (torch.arange(steps) + 0.5) / steps
        for alphas in midpoints.split(batch_size):
            with _scaled_embeddings(model, ids, alphas) as lookups, torch.enable_grad():
                scores = score_fn(torch.arange(len(alphas) * n).view(len(alphas), n) + OFFSET)
                scores = scores[:, None] if scores.dim() == 1 else scores
                gradients = torch.stack([lookups.attribute(score) for score in scores.sum(0)])  # (targets, n)
            total = gradients if total is None else total + gradients
    except (IndexError, OverflowError):  # a unique number is no row of a table
        return None
    assert total is not None
    total = total / steps
    return total[0] if expected.dim() == 1 else total


class _Lookups:
    """The scaled embeddings that the model looked up, kept for their gradients."""

    def __init__(self, n: int):
        self.n = n
        self.calls = list[tuple[Tensor, Tensor, Tensor]]()  # scaled, full, token index

    def attribute(self, output: Tensor) -> Tensor:
        """Σ_d e_td ∂output/∂e_td of each token, summed over all steps."""
        leaves = [leaf for leaf, _, _ in self.calls]
        gradients = torch.autograd.grad(output, leaves, retain_graph=True, allow_unused=True)
        total = torch.zeros(self.n)
        for (_, embedding, token), gradient in zip(self.calls, gradients, strict=True):
            if gradient is not None:
                total.index_add_(0, token.flatten(), (gradient * embedding).sum(-1).flatten().float())
        return total


@contextmanager
def _scaled_embeddings(model: nn.Module, ids: Tensor, alphas: Tensor) -> Iterator[_Lookups]:
    """Inside, unique token numbers are looked up as alpha times their embedding; each row has its own alpha."""
    n, lookups = len(ids), _Lookups(len(ids))
    pending: dict[nn.Module, Tensor] = {}

    def restore_ids(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        numbers = args[0]
        if not bool((numbers >= OFFSET).any()):
            pending.pop(module, None)
            return None
        pending[module] = numbers
        return (torch.where(numbers >= OFFSET, ids[(numbers - OFFSET).clamp(min=0) % n], numbers), *args[1:])

    def scale_output(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        numbers = pending.pop(module, None)
        if numbers is None:
            return None
        is_token = numbers >= OFFSET
        index = (numbers - OFFSET).clamp(min=0)
        alpha = torch.where(is_token, alphas[(index // n).clamp(max=len(alphas) - 1)], 1.0)[..., None]
        embedding = torch.where(is_token[..., None], output.detach(), 0.0)
        leaf = (alpha * output.detach()).requires_grad_(torch.is_grad_enabled())
        if torch.is_grad_enabled():
            lookups.calls.append((leaf, embedding, torch.where(is_token, index % n, 0)))
        return leaf

    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    handles = [table.register_forward_pre_hook(restore_ids) for table in tables]
    handles += [table.register_forward_hook(scale_output) for table in tables]
    try:
        with evaluation_mode(model):
            yield lookups
    finally:
        for handle in handles:
            handle.remove()
