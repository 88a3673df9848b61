"""Integrated gradients (Sundararajan et al. 2017, eq. 1): what each token adds to an output, along the straight way
from no words at all (embeddings of zeros) to the text.

    a_t = Σ_d e_td · ∫₀¹ ∂s(α e)/∂e_td dα                Σ_t a_t = s(e) - s(0)

The integral is the mean over the middles of equal steps. It is a measure beside attention, not attention itself.

A token is told apart from others with the same id by a number of its own, which is given to the model in place of the
id and turned back where an embedding reads it: so the model may regroup its tokens as it likes. A model that does more
with ids than look them up (n-grams that are hashed or counted) cannot be asked in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

OWN = 1 << 40
"""Where the numbers of tokens start: above all ids."""


def integrated_gradients(
    model: nn.Module,
    ids: Tensor,
    score: Callable[[Tensor], Tensor],
    *,
    steps: int = 20,
    rows: int = 10,
) -> Tensor | None:
    """One number for each of `ids` (n,): `score` runs the model on rows of them (b, n) and gives the outputs asked
    about, (b,) or (b, questions); the result is (n,) or (questions, n). `rows` steps are taken at once. None where
    the model needs more of its ids than their embeddings."""
    n = len(ids)
    with torch.no_grad():
        plain = score(ids[None])
    total: Tensor | None = None
    try:
        with torch.no_grad(), _along(model, ids, torch.ones(1)):
            again = score(torch.arange(n)[None] + OWN)
        if not torch.allclose(again, plain, rtol=1e-3, atol=1e-4):
            return None
        middles = (torch.arange(steps) + 0.5) / steps
        for part in middles.split(rows):
            with _along(model, ids, part) as way, torch.enable_grad():
                said = score(torch.arange(len(part) * n).view(len(part), n) + OWN)
                said = said[:, None] if said.dim() == 1 else said
                found = torch.stack([way.read(one) for one in said.sum(0)])  # (questions, n)
            total = found if total is None else total + found
    except (IndexError, OverflowError):  # such a number is no row of a table
        return None
    assert total is not None
    total = total / steps
    return total[0] if plain.dim() == 1 else total


class _Way:
    """What was read of the embeddings on the way, to be asked for gradients."""

    def __init__(self, n: int):
        self.n, self.read_here = n, list[tuple[Tensor, Tensor, Tensor]]()

    def read(self, output: Tensor) -> Tensor:
        """Σ_d e_td ∂output/∂e_td for each token, over all steps."""
        leaves = [leaf for leaf, _, _ in self.read_here]
        slopes = torch.autograd.grad(output, leaves, retain_graph=True, allow_unused=True)
        found = torch.zeros(self.n)
        for (_, whole, token), slope in zip(self.read_here, slopes, strict=True):
            if slope is not None:
                found.index_add_(0, token.flatten(), (slope * whole).sum(-1).flatten().float())
        return found


@contextmanager
def _along(model: nn.Module, ids: Tensor, part: Tensor) -> Iterator[_Way]:
    """While inside, token numbers are read as α times their embedding; α is that of the row."""
    n, way = len(ids), _Way(len(ids))
    numbers: dict[nn.Module, Tensor] = {}

    def before(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        given = args[0]
        if not bool((given >= OWN).any()):
            numbers.pop(module, None)
            return None
        numbers[module] = given
        known = torch.where(given >= OWN, ids[(given - OWN).clamp(min=0) % n], given)
        return (known, *args[1:])

    def after(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        given = numbers.pop(module, None)
        if given is None:
            return None
        own = given >= OWN
        number = (given - OWN).clamp(min=0)
        alpha = torch.where(own, part[(number // n).clamp(max=len(part) - 1)], 1.0)[..., None]
        whole = torch.where(own[..., None], output.detach(), 0.0)
        leaf = (alpha * output.detach()).requires_grad_(torch.is_grad_enabled())
        if torch.is_grad_enabled():
            way.read_here.append((leaf, whole, torch.where(own, number % n, 0)))
        return leaf

    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    handles = [table.register_forward_pre_hook(before) for table in tables]
    handles += [table.register_forward_hook(after) for table in tables]
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield way
    finally:
        for handle in handles:
            handle.remove()
        for module, was in training.items():
            module.training = was
