"""The cost of one operator: its work, and its time if everything that can run in parallel does.

    work      flops: two for each multiply-add of a matrix product; other: every other operation on a number
    span      sequential steps: a product or a function takes one, a sum of k numbers ⌈log2 k⌉ (a tree)
    serial    the same, but an inner product of width k takes k steps. Sums over keys, in a softmax and in weighted sums
              of values, stay trees
    products  sequential matrix products

Moving numbers (views, copies, lookups) costs nothing. An operator without a rule counts as one step and is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten


@dataclass(frozen=True)
class OperatorCost:
    """Work and span of one call; see the top of the file."""

    flops: int = 0
    other: int = 0
    span: int = 0
    serial: int = 0
    products: int = 0


def tree_depth(k: int) -> int:
    """Steps of a sum of k numbers as a binary tree: ⌈log2 k⌉."""
    return max(0, int(k) - 1).bit_length()


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOVE_OPERATORS = _split(
    """view _unsafe_view reshape _reshape_alias t transpose permute expand slice select split split_with_sizes
    unsafe_split unsafe_chunk unsqueeze squeeze unbind detach alias as_strided clone copy_ contiguous _to_copy
    lift_fresh lift cat stack arange zeros ones empty full new_empty new_zeros new_ones new_full zeros_like ones_like
    empty_like full_like empty_strided new_empty_strided fill_ zero_ scalar_tensor constant_pad_nd flip roll index
    index_select gather embedding slice_backward select_backward unsqueeze_ squeeze_ transpose_ t_ tril triu diagonal
    eye randn rand bernoulli_ normal_ uniform_ exponential_ resize_ set_ _local_scalar_dense item repeat unfold
    index_put index_put_ index_copy scatter scatter_ slice_scatter select_scatter sort nonzero im2col linspace
    repeat_interleave one_hot _unsafe_index masked_select _index_put_impl_ randperm random_ split_copy
    as_strided_scatter col2im unfold_backward diag_embed diagonal_backward topk argsort _unique2"""
)
"""Operators that move or generate numbers and compute nothing."""

ELEMENTWISE_STEPS = {
    **dict.fromkeys(
        _split(
            """add sub mul div neg exp exp2 log log1p log2 sqrt rsqrt pow abs sign sin cos tanh sigmoid relu gelu silu
            softplus where masked_fill bitwise_and bitwise_or bitwise_not bitwise_xor logical_and logical_or
            logical_not eq ne lt le gt ge maximum minimum clamp clamp_min clamp_max reciprocal square floor ceil round
            floor_divide remainder fmod isnan isfinite isinf nan_to_num rsub add_ sub_ mul_ div_ neg_ exp_ sigmoid_
            relu_ tanh_ masked_fill_ clamp_ clamp_min_ erf expm1 logical_and_ logical_or_ bitwise_and_ bitwise_or_
            scatter_add scatter_add_ index_add index_add_ threshold leaky_relu elu trunc __rshift__ __lshift__"""
        ),
        1,
    ),
    **dict.fromkeys(_split("addcmul addcmul_ addcdiv addcdiv_ lerp glu native_dropout"), 2),
    **dict.fromkeys(_split("tanh_backward sigmoid_backward"), 3),
    **dict.fromkeys(_split("threshold_backward native_dropout_backward"), 1),
    **dict.fromkeys(_split("gelu_backward silu_backward glu_backward"), 4),
}
"""Elementwise operators, and their steps per element."""

REDUCTIONS = _split(
    """sum mean amax amin max min any all argmax argmin prod cumsum norm linalg_vector_norm var std count_nonzero
    logsumexp"""
)


def operator_name(func: Any) -> str:
    """The name of an operator: `addmm` for torch.ops.aten.addmm.default."""
    return func.overloadpacket.__name__ if hasattr(func, "overloadpacket") else str(func)


def _num_elements(out: Any) -> int:
    first = out[0] if isinstance(out, tuple | list) and out else out
    return first.numel() if isinstance(first, Tensor) else 0


def _matmul(width: int, flops: int, extra_steps: int = 0) -> OperatorCost:
    """A matrix product with this inner width, and steps that follow it, such as adding a bias."""
    return OperatorCost(flops, 0, 1 + tree_depth(width) + extra_steps, max(1, width) + extra_steps, 1)


def _mm(args: tuple, out: Any) -> OperatorCost:
    (n, k), m = args[0].shape, args[1].shape[1]
    return _matmul(k, 2 * n * k * m)


def _addmm(args: tuple, out: Any) -> OperatorCost:
    (n, k), m = args[1].shape, args[2].shape[1]
    return _matmul(k, 2 * n * k * m, extra_steps=1)


def _bmm(args: tuple, out: Any) -> OperatorCost:
    (b, n, k), m = args[0].shape, args[1].shape[2]
    return _matmul(k, 2 * b * n * k * m)


def _baddbmm(args: tuple, out: Any) -> OperatorCost:
    (b, n, k), m = args[1].shape, args[2].shape[2]
    return _matmul(k, 2 * b * n * k * m, extra_steps=1)


def _mv(args: tuple, out: Any) -> OperatorCost:
    n, k = args[0].shape
    return _matmul(k, 2 * n * k)


def _dot(args: tuple, out: Any) -> OperatorCost:
    return _matmul(args[0].numel(), 2 * args[0].numel())


def _convolution(args: tuple, out: Any) -> OperatorCost:
    weight, bias = args[1], args[2]
    flops = flop_registry[aten.convolution](*args, out_val=out)
    return _matmul(weight[0].numel(), flops, extra_steps=bias is not None)


def _convolution_backward(args: tuple, out: Any) -> OperatorCost:
    grad, _, weight = args[:3]
    flops = flop_registry[aten.convolution_backward](*args, out_val=out)
    positions = grad.numel() // max(1, grad.shape[1])
    return _matmul(max(weight.numel() // max(1, weight.shape[1]), positions), flops)


def softmax_steps(k: int) -> int:
    """max, subtract, exp, sum, divide."""
    return 2 * tree_depth(k) + 3


def _attention(args: tuple, out: Any, masked: bool) -> OperatorCost:
    """Fused attention: scores, scale, mask, softmax, weighted sum."""
    q, k, v = args[:3]
    b, h, n, d = q.shape
    m, width = k.shape[2], v.shape[3]
    rest = 1 + masked + softmax_steps(m) + 1 + tree_depth(m)
    return OperatorCost(
        2 * b * h * n * m * (d + width), b * h * n * m * (6 + masked), 1 + tree_depth(d) + rest, d + rest, 2
    )


def _attention_backward(args: tuple, out: Any) -> OperatorCost:
    """The scores are computed again; then dV, dP, dQ and dK: five products."""
    _, q, k, v = args[:4]
    b, h, n, d = q.shape
    m, width = k.shape[2], v.shape[3]
    first = max(d, width)
    rest = 1 + 2 + 1 + tree_depth(m) + 2 + 1 + tree_depth(max(n, m)) + 1
    return OperatorCost(
        2 * b * h * n * m * (3 * d + 2 * width), b * h * n * m * 8, 1 + tree_depth(first) + rest, first + rest, 2
    )


def _softmax(args: tuple, out: Any) -> OperatorCost:
    x, dim = args[:2]
    steps = softmax_steps(x.shape[dim] if x.dim() else 1)
    return OperatorCost(0, 5 * x.numel(), steps, steps)


def _safe_softmax(args: tuple, out: Any) -> OperatorCost:
    """A softmax that is zero where no key is allowed: a test in parallel, and a selection at the end."""
    plain = _softmax(args, out)
    return OperatorCost(0, plain.other + 2 * args[0].numel(), plain.span + 1, plain.serial + 1)


def _log_softmax(args: tuple, out: Any) -> OperatorCost:
    x, dim = args[:2]
    steps = softmax_steps(x.shape[dim] if x.dim() else 1) + 1
    return OperatorCost(0, 5 * x.numel(), steps, steps)


def _softmax_backward(args: tuple, out: Any) -> OperatorCost:
    grad, _, dim = args[:3]
    steps = tree_depth(grad.shape[dim] if grad.dim() else 1) + 3
    return OperatorCost(0, 4 * grad.numel(), steps, steps)


def _layer_norm(args: tuple, out: Any) -> OperatorCost:
    """Mean, subtract, square, mean, add ε, square root, multiply, then weight and bias."""
    x, shape, weight, bias = args[:4]
    width = 1
    for size in shape:
        width *= size
    steps = 2 * (tree_depth(width) + 1) + 5 + (weight is not None) + (bias is not None)
    return OperatorCost(0, 8 * x.numel(), steps, steps)


def _layer_norm_backward(args: tuple, out: Any) -> OperatorCost:
    x, shape = args[1], args[2]
    width = 1
    for size in shape:
        width *= size
    steps = max(tree_depth(width) + 6, tree_depth(x.numel() // max(1, width)) + 3)
    return OperatorCost(0, 12 * x.numel(), steps, steps)


def _group_norm(args: tuple, out: Any) -> OperatorCost:
    """As layer norm, over the channels and positions of a group."""
    x, weight, bias = args[:3]
    steps = 2 * (tree_depth(x.numel() // max(1, args[3] * args[6])) + 1) + 5 + (weight is not None) + (bias is not None)
    return OperatorCost(0, 8 * x.numel(), steps, steps)


def _group_norm_backward(args: tuple, out: Any) -> OperatorCost:
    """Sums over a group for the input; over images and positions for the weights."""
    x, n, positions, groups = args[1], args[5], args[7], args[8]
    steps = max(tree_depth(x.numel() // max(1, n * groups)) + 6, tree_depth(n * positions) + 3)
    return OperatorCost(0, 12 * x.numel(), steps, steps)


def _embedding_backward(args: tuple, out: Any) -> OperatorCost:
    """Gradients of rows, summed if a row was looked up more than once."""
    ids = args[1]
    return OperatorCost(0, args[0].numel(), tree_depth(ids.numel()), tree_depth(ids.numel()))


def _embedding_bag(args: tuple, out: Any) -> OperatorCost:
    """Rows looked up and summed, all bags in parallel."""
    weight, ids, offsets = args[:3]
    steps = tree_depth(int(torch.diff(offsets, append=offsets.new_tensor([len(ids)])).max()) if len(offsets) else 0)
    return OperatorCost(0, ids.numel() * weight.shape[1], steps, steps)


def _embedding_bag_backward(args: tuple, out: Any) -> OperatorCost:
    """Gradients of rows, summed if a row is in several bags, in the worst case in all."""
    grad, ids = args[:2]
    return OperatorCost(0, ids.numel() * grad.shape[1], tree_depth(ids.numel()), tree_depth(ids.numel()))


def _bincount(args: tuple, out: Any) -> OperatorCost:
    """Counts of each number, in the worst case all in one bin."""
    count = args[0].numel()
    return OperatorCost(0, count, tree_depth(count), tree_depth(count))


def _searchsorted(args: tuple, out: Any) -> OperatorCost:
    """Binary search: sequential comparisons."""
    steps = tree_depth(args[0].shape[-1] + 1)
    return OperatorCost(0, steps * _num_elements(out), steps, steps)


def _lstm(args: tuple, out: Any) -> OperatorCost:
    """Each step: hidden product with its bias, then six: add the input product, gate, forget, add, tanh, gate."""
    x, w_input, w_hidden = args[:3]
    steps, b = x.shape[0], x.shape[1]
    flops = 2 * steps * b * (w_input.numel() + w_hidden.numel())
    width, hidden = w_input.shape[1], w_hidden.shape[1]
    tree_steps, serial_steps = (lambda k: 2 + tree_depth(k)), (lambda k: 1 + k)
    spans = [max(f(width), f(hidden)) + 6 + (steps - 1) * (f(hidden) + 6) for f in (tree_steps, serial_steps)]
    return OperatorCost(flops, 9 * steps * b * hidden, spans[0], spans[1], steps)


def _lstm_backward(args: tuple, out: Any) -> OperatorCost:
    x, w_input, w_hidden = args[:3]
    steps, b = x.shape[0], x.shape[1]
    flops = 4 * steps * b * (w_input.numel() + w_hidden.numel())
    each = 10 + tree_depth(4 * w_hidden.shape[1]), 9 + 4 * w_hidden.shape[1]
    return OperatorCost(flops, 20 * steps * b * w_hidden.shape[1], steps * each[0], steps * each[1], steps + 1)


RULES: dict[str, Callable[[tuple, Any], OperatorCost]] = {
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    "mv": _mv,
    "dot": _dot,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_softmax": _softmax,
    "_safe_softmax": _safe_softmax,
    "_log_softmax": _log_softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _softmax_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "native_group_norm": _group_norm,
    "native_group_norm_backward": _group_norm_backward,
    "embedding_dense_backward": _embedding_backward,
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_backward": _embedding_bag_backward,
    "bincount": _bincount,
    "searchsorted": _searchsorted,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "mkldnn_rnn_layer": _lstm,
    "mkldnn_rnn_layer_backward": _lstm_backward,
}


def operator_cost(func: Any, args: tuple, kwargs: dict[str, Any], out: Any) -> OperatorCost | None:
    """The cost of a call; None if there is no rule."""
    name = operator_name(func)
    if name in MOVE_OPERATORS:
        return OperatorCost()
    if name == "_scaled_dot_product_flash_attention_for_cpu":
        return _attention(args, out, masked=kwargs.get("attn_mask") is not None)
    if name in RULES:
        return RULES[name](args, out)
    if name in ELEMENTWISE_STEPS:
        steps = ELEMENTWISE_STEPS[name]
        return OperatorCost(0, steps * _num_elements(out), steps, steps)
    if name in REDUCTIONS:
        count = args[0].numel()
        group = max(1, count // max(1, _num_elements(out)))
        steps = tree_depth(group) + (name == "mean")
        return OperatorCost(0, count, steps, steps)
    return None
