"""Change attention weights while a model runs, and see how its output changes.

    with edit(model, "layers.2.attention.attend", ablate([3])):
        model(ids)

An edit is a function of the weights (b, h, q, k) and the scores they come from. Several edits of one layer are applied
in the order given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.scores import Attend, Scores
from regard.errors import UserError, did_you_mean
from regard.inspect import torch_attention

Edit = Callable[[Tensor, Scores], Tensor]
AttentionLayer = Attend | nn.MultiheadAttention

_EDITS: WeakKeyDictionary[nn.Module, list[Edit]] = WeakKeyDictionary()


@contextmanager
def edit(model: nn.Module, layer: str, edit_fn: Edit) -> Iterator[None]:
    """Change the attention weights of one layer inside the `with` block.

    Args:
        model: A regard model, or any module with `nn.MultiheadAttention`.
        layer: Name of the attention layer; `record` and an error message list them.
        edit_fn: Maps weights (b, h, q, k) and their scores to new weights: `ablate`, `uniform`, `mask_keys`, `swap`,
            or a function of your own.
    """
    layers = {name: module for name, module in model.named_modules() if isinstance(module, AttentionLayer)}
    if layer not in layers:
        raise UserError(f"the model has no attention at {layer!r}; {did_you_mean(layer, layers)}")
    module = layers[layer]
    edits = _EDITS.setdefault(module, [])
    edits.append(edit_fn)
    handle = module.register_forward_hook(_apply_hook, with_kwargs=True) if len(edits) == 1 else None
    try:
        with run_eagerly():
            yield
    finally:
        edits.remove(edit_fn)
        if handle is not None:
            handle.remove()


def apply_edits(module: AttentionLayer, weights: Tensor, scores: Scores) -> Tensor:
    """Apply the edits that are active on a layer to its weights."""
    for edit_fn in _EDITS.get(module, ()):
        weights = edit_fn(weights, scores)
    return weights


def attention_inputs(module: AttentionLayer, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Tensor, Mask | None]:
    """Scores, values (b, h, k, d) and mask from the arguments of a layer's `forward`."""
    if isinstance(module, nn.MultiheadAttention):
        return torch_attention.attention_inputs(module, *args, **kwargs)
    return _attend_inputs(*args, **kwargs)


@contextmanager
def run_eagerly() -> Iterator[None]:
    """Make models call their hooks: torch.compile skips hooks added after a compiled call, torch's fast path all."""
    with torch.compiler.set_stance("force_eager"), torch_attention.no_fast_path():
        yield


def _attend_inputs(scores: Scores, value: Tensor, mask: Mask | None = None) -> tuple[Scores, Tensor, Mask | None]:
    return scores, value, mask


def _apply_hook(module: AttentionLayer, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
    scores, value, mask = attention_inputs(module, args, kwargs)
    weights = apply_edits(module, scores.weights(mask), scores)
    context = scores.apply(weights, value)
    if isinstance(module, nn.MultiheadAttention):
        return torch_attention.replace_output(module, args, kwargs, context, weights)
    return context


def ablate(heads: list[int] | None = None) -> Edit:
    """Set the weights of these heads (all by default) to zero, so that they read nothing."""

    def edit_fn(weights: Tensor, scores: Scores) -> Tensor:
        keep = weights.new_ones(weights.shape[1])
        keep[_check_heads(weights, heads)] = 0.0
        return weights * keep[:, None, None]

    return edit_fn


def uniform(heads: list[int] | None = None) -> Edit:
    """In these heads (all by default), attend equally to all keys that a query may attend to."""

    def edit_fn(weights: Tensor, scores: Scores) -> Tensor:
        allowed = (weights > 0).to(weights.dtype)
        mean = allowed / allowed.sum(-1, keepdim=True).clamp(min=1.0)
        selected = torch.zeros(weights.shape[1], dtype=torch.bool, device=weights.device)
        selected[_check_heads(weights, heads)] = True
        return torch.where(selected[:, None, None], mean, weights)

    return edit_fn


def swap(source_weights: Tensor, heads: list[int] | None = None, *, source_heads: list[int] | None = None) -> Edit:
    """Replace the weights of these heads (all by default) by those of another model on the same input.

    Args:
        source_weights: Weights of the other model, (b, h, q, k).
        heads: Heads to replace.
        source_heads: Heads of the other model to use instead; the same numbers by default.
    """

    def edit_fn(weights: Tensor, scores: Scores) -> Tensor:
        targets = _check_heads(weights, heads)
        sources = targets if source_heads is None else _check_heads(source_weights, source_heads)
        same_input = source_weights.shape[0] == weights.shape[0] and source_weights.shape[2:] == weights.shape[2:]
        if not same_input or len(targets) != len(sources):
            raise UserError(
                f"weights {tuple(source_weights.shape)} of heads {sources} cannot replace {tuple(weights.shape)} of "
                f"heads {targets}: both models must read the same tokens"
            )
        if sources and max(sources) >= source_weights.shape[1]:
            raise UserError(
                f"the other model has heads 0 to {source_weights.shape[1] - 1} there, and {max(sources)} was given"
            )
        weights = weights.clone()
        weights[:, targets] = source_weights[:, sources].to(weights.dtype)
        return weights

    return edit_fn


def mask_keys(keys: Tensor | list[int], *, renormalize: bool = True) -> Edit:
    """Set the weights of these keys to zero; the rest is scaled to sum to one (as with a mask), or left as it is."""

    def edit_fn(weights: Tensor, scores: Scores) -> Tensor:
        index = torch.as_tensor(keys, device=weights.device)
        weights = weights.index_fill(-1, index, 0.0)
        if not renormalize:
            return weights
        total = weights.sum(-1, keepdim=True)
        return torch.where(total > 0, weights / total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)

    return edit_fn


def _check_heads(weights: Tensor, heads: list[int] | None) -> list[int]:
    count = weights.shape[1]
    if heads is None:
        return list(range(count))
    for head in heads:
        if not 0 <= head < count:
            raise UserError(f"there are heads 0 to {count - 1} here, and {head} was given")
    return heads
