"""Scores of torch's own `nn.MultiheadAttention`, so that `record` and `edit` work on it as on regard's layers.

`nn.TransformerEncoder`, `nn.TransformerDecoder` and `nn.Transformer` contain this layer. Their fast path in evaluation
mode does not call it, so it is disabled while recording and editing (`no_fast_path`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.scores import DotScores
from regard.attention.token_positions import QueryKeyPositions


@contextmanager
def no_fast_path() -> Iterator[None]:
    """Disable torch's fused encoder layers, which hide the weights and change the results."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def attention_inputs(
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[DotScores, Tensor, Mask | None]:
    """Project the arguments of `nn.MultiheadAttention.forward` to its scores, values (b, h, k, d) and mask.

    `is_causal` is only a hint for torch: the causal mask itself is in `attn_mask`.
    """
    query, key, value = (_batch_first(module, x) for x in (query, key, value))
    q, k, v = _project(module, query, key, value)
    if module.bias_k is not None and module.bias_v is not None:
        k = torch.cat((k, module.bias_k.expand(len(k), -1, -1)), 1)
        v = torch.cat((v, module.bias_v.expand(len(v), -1, -1)), 1)
    q, k, v = (x.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    if module.add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
    if key_padding_mask is not None:
        key_padding_mask = key_padding_mask.view(-1, 1, 1, key_padding_mask.shape[-1])
    if attn_mask is not None and attn_mask.dim() == 3:
        attn_mask = attn_mask.unflatten(0, (-1, module.num_heads))
    allowed, bias = _merge_masks(key_padding_mask, attn_mask, extra_keys=k.shape[2] - key.shape[1])
    positions = QueryKeyPositions(range(q.shape[2]), range(k.shape[2]))
    scores = DotScores(q, k, positions, module.head_dim**-0.5, bias)
    return scores, v, None if allowed is None else Mask(None, allowed)


def replace_output(
    module: nn.MultiheadAttention, args: tuple, kwargs: dict[str, Any], context: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor | None]:
    """What `nn.MultiheadAttention.forward` returns for other weights (b, h, q, k) and their context (b, h, q, d)."""
    names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights")
    options = dict(zip(names, args, strict=False)) | kwargs
    has_batch = options["query"].dim() == 3
    output = module.out_proj(context.transpose(1, 2).flatten(2))
    if not has_batch:
        output = output[0]
    elif not module.batch_first:
        output = output.transpose(0, 1)
    if not options.get("need_weights", True):
        return output, None
    weights = weights.mean(1) if options.get("average_attn_weights", True) else weights
    return output, weights if has_batch else weights[0]


def _batch_first(module: nn.MultiheadAttention, x: Tensor) -> Tensor:
    if x.dim() == 2:
        return x[None]
    return x if module.batch_first else x.transpose(0, 1)


def _project(module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if module.in_proj_weight is not None:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = (None, None, None) if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    return q, k, v


def _merge_masks(*masks: Tensor | None, extra_keys: int) -> tuple[Tensor | None, Tensor | None]:
    """Torch's masks (True or -inf: hidden) as allowed pairs (b, h, q, k) and a bias; extra keys are visible."""
    allowed: Tensor | None = None
    bias: Tensor | None = None
    for mask in masks:
        if mask is None:
            continue
        mask = mask if mask.dim() == 4 else mask[None, None]
        visible = ~mask if mask.dtype == torch.bool else mask != -torch.inf
        visible = F.pad(visible, (0, extra_keys), value=True)
        allowed = visible if allowed is None else allowed & visible
        if mask.dtype != torch.bool:
            finite = F.pad(mask.masked_fill(mask == -torch.inf, 0.0), (0, extra_keys))
            bias = finite if bias is None else bias + finite
    return allowed, bias
