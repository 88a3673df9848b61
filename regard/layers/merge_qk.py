"""Merge the query and key matrices of a layer into one, and factor them again.

    merge_qk(layer)          W_h = W_Qᵀ W_K / sqrt(d_k),  u_h = W_Kᵀ b_Q / sqrt(d_k): exactly the same attention
    factor_qk(layer, rank)   the nearest pair of matrices of that rank (truncated SVD), and the error

Merging needs scores that are one product of the inputs. Rotary positions put a rotation between the two matrices, a
different one for each distance, so a layer with them cannot be merged. Biases on the scores (T5, ALiBi) are kept.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.mechanisms.dot import DotMechanism
from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.mechanisms.merged_qk import MergedQKMechanism
from regard.attention.token_positions import QueryKeyPositions
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention


@dataclass(frozen=True)
class TruncationLoss:
    """Error of a truncated factorization.

    Args:
        relative: ‖W - W'‖_F / ‖W‖_F of each head, where the key-only term is a row of W.
        max_weight_diff: Largest difference of any attention weight on a given input. None if there is no input.
    """

    relative: tuple[float, ...]
    max_weight_diff: float | None = None


@torch.no_grad()
def merge_qk(layer: MultiHeadAttention) -> MultiHeadAttention:
    """Convert a layer of "dot" or "bare" attention to an equal layer of merged query-key attention.

    The new layer shares the position encoding of the old one.
    """
    old = layer.mechanism
    if not isinstance(old, DotMechanism):
        raise UserError(f"only 'dot' and 'bare' attention can be merged; given a layer of {old.name!r}")
    if old.positions.kind == "rotate":
        raise UserError(
            f"a layer with {old.positions.name!r} positions cannot be merged: they rotate queries and keys between the "
            "two matrices, differently at each distance. Use positions that embed, or that add a bias to the scores"
        )
    q, q_bias, k, v, v_bias = _split_qkv(old)
    new = _layer_like(layer, MergedQKMechanism.name, bias=v_bias is not None, key_bias=q_bias is not None)
    mechanism = new.mechanism
    assert isinstance(mechanism, MergedQKMechanism)
    mechanism.q.weight.copy_(old.scale * torch.einsum("hij,hik->hjk", k.double(), q.double()).flatten(0, 1))
    if q_bias is not None:
        mechanism.q.bias.copy_(old.scale * torch.einsum("hij,hi->hj", k.double(), q_bias.double()).flatten())
    mechanism.v.weight.copy_(v)
    if v_bias is not None:
        mechanism.v.bias.copy_(v_bias)
    return new


@torch.no_grad()
def factor_qk(
    layer: MultiHeadAttention, rank: int, *, x: Tensor | None = None
) -> tuple[MultiHeadAttention, TruncationLoss]:
    """Convert a layer of merged query-key attention to the nearest layer of "dot" attention with key width `rank`.

    Args:
        layer: The layer.
        rank: Rank of the query-key matrix of each head.
        x: An input (b, n, dim) on which the attention weights are compared.

    Returns:
        The new layer, and the error.
    """
    old = layer.mechanism
    if not isinstance(old, MergedQKMechanism):
        raise UserError(f"only {MergedQKMechanism.name!r} attention can be factored; given a layer of {old.name!r}")
    # The key-only term is the row of a query that is always one, so that one decomposition covers both.
    w = old.q.weight.double().view(old.heads, old.context_dim, old.dim)
    if old.q.bias is not None:
        w = torch.cat((w, old.q.bias.double().view(old.heads, old.context_dim, 1)), -1)
    if not 1 <= rank <= min(w.shape[1:]):
        raise UserError(f"rank must be from 1 to {min(w.shape[1:])} for this layer; given {rank}")
    left, values, right = torch.linalg.svd(w, full_matrices=False)
    root = (values[:, :rank] * rank**0.5).sqrt()  # dot attention divides by sqrt(rank)
    k = (left[..., :rank] * root[:, None]).transpose(1, 2)
    q = right[:, :rank] * root[..., None]
    new = _layer_like(layer, "dot", bias=old.q.bias is not None or old.v.bias is not None, key_width=rank)
    assert isinstance(new.mechanism, DotMechanism)
    _copy_factors(new.mechanism, q, k, old)
    squared_error = values[:, rank:].square().sum(1) / values.square().sum(1)
    relative = tuple(squared_error.nan_to_num().sqrt().tolist())
    return new, TruncationLoss(relative, None if x is None else _max_weight_diff(old, new.mechanism, x))


def _layer_like(layer: MultiHeadAttention, name: str, *, bias: bool, **options: Any) -> MultiHeadAttention:
    """A new layer of another mechanism, with the same output matrix, dropout, device and dtype."""
    old = layer.mechanism
    new = MultiHeadAttention(
        old.dim,
        old.heads,
        name,
        positions=old.positions,
        context_dim=old.context_dim,
        value_width=old.value_width,
        bias=bias,
        dropout=layer.attend.dropout,
        **options,
    )
    new.out = deepcopy(layer.out)
    like = next(p for n, p in old.named_parameters() if not n.startswith("positions."))
    return new.to(like.device, like.dtype).train(layer.training)


def _split_qkv(old: DotMechanism) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor | None]:
    """W_Q (h, d_k, dim), its bias, W_K (h, d_k, context_dim), W_V (h · d_v, context_dim), its bias."""
    keys, values = old.heads * old.key_width, old.heads * old.value_width
    if old.qkv is not None:
        weights, bias = old.qkv.weight.split((keys, keys, values)), old.qkv.bias
        biases = (None, None, None) if bias is None else bias.split((keys, keys, values))
    else:
        weights = old.q.weight, *old.kv.weight.split((keys, values))
        kv_biases = (None, None) if old.kv.bias is None else old.kv.bias.split((keys, values))
        biases = old.q.bias, *kv_biases
    q, k = (w.view(old.heads, old.key_width, -1) for w in weights[:2])
    q_bias = None if biases[0] is None else biases[0].view(old.heads, old.key_width)
    return q, q_bias, k, weights[2], biases[2]


def _copy_factors(mechanism: DotMechanism, q: Tensor, k: Tensor, old: MergedQKMechanism) -> None:
    """Set W_Q (q has its bias as last column, if there is one) and W_K, and copy W_V."""
    new_q, new_q_bias, new_k, new_v, new_v_bias = _split_qkv(mechanism)
    for parameter in mechanism.parameters():
        if not any(parameter is p for p in mechanism.positions.parameters()):
            nn.init.zeros_(parameter)
    new_q.copy_(q[..., : old.dim])
    new_k.copy_(k)
    new_v.copy_(old.v.weight)
    if old.q.bias is not None and new_q_bias is not None:
        new_q_bias.copy_(q[..., old.dim])
    if old.v.bias is not None and new_v_bias is not None:
        new_v_bias.copy_(old.v.bias)


def _max_weight_diff(a: Mechanism, b: Mechanism, x: Tensor) -> float:
    """Largest difference of the attention weights on x, without a mask."""
    ids = range(x.shape[1])
    positions = QueryKeyPositions(ids, ids)
    weights = [m.score(m.project_query(x, ids), m.project_kv(x, ids)[0], positions).weights() for m in (a, b)]
    return float((weights[0] - weights[1]).abs().max())
