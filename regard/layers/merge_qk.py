"""From two matrices of query and key to one, and back.

    merge_qk(layer)          W_h = W_Qᵀ W_K / sqrt(d_k),  u_h = W_Kᵀ b_Q / sqrt(d_k): the same attention, exactly
    factor_qk(layer, rank)   the nearest pair of matrices of that rank (singular values), with what it loses

Merging needs scores that are one product of inputs. Rotary positions put a rotation between the two matrices, a
different one for each distance, so a layer that uses them cannot be merged; biases on the scores (T5, ALiBi) stay.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.mechanisms.bare import BareMechanism
from regard.attention.mechanisms.dot import DotMechanism
from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.mechanisms.merged_qk import MergedMechanism
from regard.attention.token_positions import QueryKeyPositions
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention


@dataclass(frozen=True)
class TruncationLoss:
    """What factoring loses: for each head ‖W - W'‖_F / ‖W‖_F, with the key-only term as a row of W; and, where an input
    was given, the greatest difference of any attention weight."""

    relative: tuple[float, ...]
    weights: float | None = None


@torch.no_grad()
def merge_qk(layer: MultiHeadAttention) -> MultiHeadAttention:
    """A layer of "merged" attention equal to this one of "dot" or "bare" attention. It shares the layer's positions."""
    old = layer.mechanism
    if not isinstance(old, (DotMechanism, BareMechanism)):
        raise UserError(f"only 'dot' and 'bare' attention can be merged; given a layer of {old.name!r}")
    if old.positions.kind == "rotate":
        raise UserError(
            f"a layer with {old.positions.name!r} positions cannot be merged: they turn queries and keys between the "
            "two matrices, differently at each distance. Positions that embed or that add a bias to the scores can"
        )
    q, q_bias, k, v, v_bias = _parts(old)
    new = _layer_like(layer, "merged", bias=v_bias is not None, key_bias=q_bias is not None)
    mechanism = new.mechanism
    assert isinstance(mechanism, MergedMechanism)
    mechanism.q.weight.copy_(old.scale * torch.einsum("hij,hik->hjk", k.double(), q.double()).flatten(0, 1))
    if q_bias is not None:
        mechanism.q.bias.copy_(old.scale * torch.einsum("hij,hi->hj", k.double(), q_bias.double()).flatten())
    mechanism.v.weight.copy_(v)
    if v_bias is not None:
        mechanism.v.bias.copy_(v_bias)
    return new


@torch.no_grad()
def factor_qk(
    layer: MultiHeadAttention, rank: int, *, on: Tensor | None = None
) -> tuple[MultiHeadAttention, TruncationLoss]:
    """A layer of "dot" attention with key width `rank`, the nearest to this one of "merged" attention, and what is
    lost; `on` (b, n, dim), an input on which the attention weights are compared."""
    old = layer.mechanism
    if not isinstance(old, MergedMechanism):
        raise UserError(f"only 'merged' attention can be factored; given a layer of {old.name!r}")
    # The key-only term is the row of a query that is always one, so one decomposition serves both.
    w = old.q.weight.double().view(old.heads, old.context_dim, old.dim)
    if old.q.bias is not None:
        w = torch.cat((w, old.q.bias.double().view(old.heads, old.context_dim, 1)), -1)
    if not 1 <= rank <= min(w.shape[1:]):
        raise UserError(f"rank must be from 1 to {min(w.shape[1:])} here; given {rank}")
    left, values, right = torch.linalg.svd(w, full_matrices=False)
    root = (values[:, :rank] * rank**0.5).sqrt()  # dot attention divides by sqrt(rank)
    k = (left[..., :rank] * root[:, None]).transpose(1, 2)
    q = right[:, :rank] * root[..., None]
    new = _layer_like(layer, "dot", bias=old.q.bias is not None or old.v.bias is not None, key_width=rank)
    _write(new.mechanism, q, k, old)
    lost = values[:, rank:].square().sum(1) / values.square().sum(1)
    relative = tuple(lost.nan_to_num().sqrt().tolist())
    return new, TruncationLoss(relative, None if on is None else _difference(old, new.mechanism, on))


def _layer_like(layer: MultiHeadAttention, name: str, *, bias: bool, **options: Any) -> MultiHeadAttention:
    """A new layer round another mechanism, with the same output matrix, dropout, device and precision."""
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


def _parts(old: DotMechanism | BareMechanism) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor | None]:
    """W_Q (h, d_k, dim), its bias, W_K (h, d_k, context_dim), W_V (h · d_v, context_dim), its bias."""
    keys, values = old.heads * old.key_width, old.heads * old.value_width
    packed = old.qkv if isinstance(old, DotMechanism) else None
    if packed is not None:
        weights, bias = packed.weight.split((keys, keys, values)), packed.bias
        biases = (None, None, None) if bias is None else bias.split((keys, keys, values))
    else:
        weights = old.q.weight, *old.kv.weight.split((keys, values))
        rest = (None, None) if old.kv.bias is None else old.kv.bias.split((keys, values))
        biases = old.q.bias, *rest
    q, k = (w.view(old.heads, old.key_width, -1) for w in weights[:2])
    q_bias = None if biases[0] is None else biases[0].view(old.heads, old.key_width)
    return q, q_bias, k, weights[2], biases[2]


def _write(mechanism: Mechanism, q: Tensor, k: Tensor, old: MergedMechanism) -> None:
    """Put W_Q (with its bias as a last column, if there is one) and W_K into a dot mechanism, and the values of the
    old one."""
    assert isinstance(mechanism, DotMechanism)
    new_q, new_q_bias, new_k, new_v, new_v_bias = _parts(mechanism)
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


def _difference(a: Mechanism, b: Mechanism, x: Tensor) -> float:
    """The greatest |Δ| of the attention weights on x, each place regarding all."""
    position_ids = range(x.shape[1])
    qk_positions = QueryKeyPositions(position_ids, position_ids)
    weights = [
        m.score(m.project_query(x, position_ids), m.project_kv(x, position_ids)[0], qk_positions).weights()
        for m in (a, b)
    ]
    return float((weights[0] - weights[1]).abs().max())
