"""Step in where attention happens: change the weights and see what the model then says.

    with edit(model, "layers.2.attention.attend", ablate([3])):
        model(ids)

An edit is a function of the weights (b, h, q, k) and the scores they come from; several on one site act in the order
given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.scores import Attend, Scores
from regard.errors import UserError, nearest

Edit = Callable[[Tensor, Scores], Tensor]

_EDITS: WeakKeyDictionary[Attend, list[Edit]] = WeakKeyDictionary()


def edited(module: Attend, weights: Tensor, scores: Scores) -> Tensor:
    """The weights as the edits in force make them."""
    for change in _EDITS.get(module, ()):
        weights = change(weights, scores)
    return weights


@contextmanager
def edit(model: nn.Module, site: str, change: Edit) -> Iterator[None]:
    """While inside, the attention at this site reads with changed weights."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, Attend)}
    if site not in found:
        raise UserError(f"the model has no attention at {site!r}; {nearest(site, found)}")
    module = found[site]
    edits = _EDITS.setdefault(module, [])
    edits.append(change)
    handle = module.register_forward_hook(_reread, with_kwargs=True) if len(edits) == 1 else None
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        edits.remove(change)
        if handle is not None:
            handle.remove()


def _reread(module: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> Tensor:
    return _with_edits(module, *args, **kwargs)  # type: ignore[arg-type]


def _with_edits(module: Attend, scores: Scores, value: Tensor, mask: Mask | None = None) -> Tensor:
    return scores.read(edited(module, scores.weights(mask), scores), value)


def ablate(heads: list[int] | None = None) -> Edit:
    """These heads (all by default) read nothing."""

    def change(weights: Tensor, scores: Scores) -> Tensor:
        keep = weights.new_ones(weights.shape[1])
        keep[_known(weights, heads)] = 0.0
        return weights * keep[:, None, None]

    return change


def uniform(heads: list[int] | None = None) -> Edit:
    """In these heads (all by default) every query regards all that it may see, equally."""

    def change(weights: Tensor, scores: Scores) -> Tensor:
        seen = (weights > 0).to(weights.dtype)
        even = seen / seen.sum(-1, keepdim=True).clamp(min=1.0)
        chosen = torch.zeros(weights.shape[1], dtype=torch.bool, device=weights.device)
        chosen[_known(weights, heads)] = True
        return torch.where(chosen[:, None, None], even, weights)

    return change


def swap(other: Tensor, heads: list[int] | None = None, *, of: list[int] | None = None) -> Edit:
    """These heads (all by default) attend as another model did: with its weights (b, h, q, k) on the same input, of its
    heads `of` (the same numbers by default)."""

    def change(weights: Tensor, scores: Scores) -> Tensor:
        mine = _known(weights, heads)
        theirs = mine if of is None else _known(other, of)
        if other.shape[0] != weights.shape[0] or other.shape[2:] != weights.shape[2:] or len(mine) != len(theirs):
            raise UserError(
                f"weights {tuple(other.shape)} of heads {theirs} cannot stand in for {tuple(weights.shape)} of heads "
                f"{mine}: both models must read the same tokens"
            )
        if theirs and max(theirs) >= other.shape[1]:
            raise UserError(f"the other model has heads 0 to {other.shape[1] - 1} there, and {max(theirs)} was given")
        weights = weights.clone()
        weights[:, mine] = other[:, theirs].to(weights.dtype)
        return weights

    return change


def _known(weights: Tensor, heads: list[int] | None) -> list[int]:
    count = weights.shape[1]
    if heads is None:
        return list(range(count))
    for head in heads:
        if not 0 <= head < count:
            raise UserError(f"there are heads 0 to {count - 1} here, and {head} was given")
    return heads


def hide(keys: Tensor | list[int], *, renormalise: bool = True) -> Edit:
    """These keys weigh nothing; the others are scaled up to one again (as if hidden before the softmax), or left as
    they are."""

    def change(weights: Tensor, scores: Scores) -> Tensor:
        index = torch.as_tensor(keys, device=weights.device)
        weights = weights.index_fill(-1, index, 0.0)
        if not renormalise:
            return weights
        total = weights.sum(-1, keepdim=True)
        return torch.where(total > 0, weights / total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)

    return change
