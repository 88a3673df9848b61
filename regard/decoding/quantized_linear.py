"""Linear maps prepared for decoding, where a step is a few rows against every weight and reading the weights is what
takes the time.

    float32    in the order of a kernel of regard.kernels, made once; without it several rows in oneDNN's own order, and
               one row turned round once, which torch multiplies with faster
    float16    the weight at half the bytes, rounded to 11 bits; the products are float32, by the kernel or by fbgemm
    int8       the weight at a quarter of the bytes, a scale for each of its rows; the inputs are rounded too, and the
               products are whole numbers: by a kernel of regard.kernels for AVX-512 VNNI, or by fbgemm

fbgemm has one scale of the inputs for the whole batch, so that there, and only there, what a row gives hangs a little
on the other rows of its batch. The kernel has one for each row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from regard import kernels
from regard.config import specs

WHOLE = "float32"

Linear = Callable[[Tensor], Tensor]
"""(n, in) to (n, out)."""


def turned(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """For one row."""
    across = weight.detach().t().contiguous()
    if bias is None:
        return (lambda x: (x @ across).relu_()) if relu else across.__rmatmul__
    add = bias.detach()
    return (lambda x: torch.addmm(add, x, across).relu_()) if relu else lambda x: torch.addmm(add, x, across)


def whole(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """float32. How many rows will come is not known, so without the kernel both ways are kept."""
    if kernels.multiplies(weight):
        return kernels.Product(weight, bias, relu)
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled and weight.device.type == "cpu"):
        return turned(weight, bias, relu)
    many = packed(weight, bias, relu)
    if torch.get_num_threads() > 1:  # each reads a part, which is worth more than the better order
        return many
    few = turned(weight, bias, relu)
    return lambda x: few(x) if x.shape[0] == 1 else many(x)


def packed(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """oneDNN's own order of the weight, made once. MKL would make its own anew at each product, which takes longer than
    the product of a few rows."""
    weight = weight.detach()
    ordered = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    add, product = None if bias is None else bias.detach(), torch.ops.mkldnn._linear_pointwise.default
    after = "relu" if relu else "none"
    return lambda x: product(x, ordered, add, after, [], "")


def half(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    if kernels.multiplies(weight):
        return kernels.Product(weight, bias, relu, torch.float16)
    packed = torch.ops.quantized.linear_prepack_fp16(weight.detach(), None if bias is None else bias.detach())
    known = torch.ops.quantized
    product = known.linear_relu_dynamic_fp16.default if relu else known.linear_dynamic_fp16.default
    return lambda x: product(x, packed)


def eighth(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    return kernels.Rounded(weight, bias, relu) if kernels.rounds(weight) else fbgemm(weight, bias, relu)


def fbgemm(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """int8, where there is no kernel."""
    weight = weight.detach()
    # Seven bits: fbgemm adds products of pairs in sixteen, which eight would overflow on processors without VNNI.
    scales = (weight.abs().amax(1).double() / 63).clamp_min(1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # quantised tensors are to move into torchao
        rounded = torch.quantize_per_channel(weight, scales, torch.zeros(len(weight), dtype=torch.long), 0, torch.qint8)
    shown = None if bias is None else bias.detach().clone()
    never = torch.zeros(0, dtype=torch.long)
    if shown is not None:  # -inf cannot be rounded, and is written into the few words that have it
        never = shown.isinf().nonzero()[:, 0]
        shown[never] = 0.0
    packed = torch.ops.quantized.linear_prepack(rounded, shown)
    known = torch.ops.quantized
    product = known.linear_relu_dynamic.default if relu else known.linear_dynamic.default
    if not len(never):
        return lambda x: product(x, packed, True)
    return lambda x: product(x, packed, True).index_fill_(1, never, -torch.inf)


class Make(Protocol):
    """A map of weight (out, in) and bias, and max(0, ·) of what it gives where asked for, in the same pass."""

    def __call__(self, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear: ...


KINDS: dict[str, Make] = {WHOLE: whole, "float16": half, "int8": eighth}


def linear(precision: str) -> Make:
    """How linear maps of this precision are made."""
    return specs.find("precision", precision, KINDS)
