"""Linear layers for decoding, where a step multiplies few rows with every weight and mostly reads weights.

    float32    in the layout of a kernel of regard.kernels, converted once; without it, several rows in oneDNN's layout,
               and one row with the transposed weight, which torch multiplies faster
    float16    the weight at half the size, rounded to 11 bits; products are float32, by the kernel or by fbgemm
    int8       the weight at a quarter of the size, one scale per output; inputs are rounded too, and products are
               integers: by a kernel of regard.kernels for AVX-512 VNNI, or by fbgemm

fbgemm has one input scale for the whole batch, so with it (and only with it) the result of a row depends slightly on
the other rows of its batch. The kernel has one scale per row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from regard import kernels
from regard.config import specs

FULL_PRECISION = "float32"

Linear = Callable[[Tensor], Tensor]
"""(n, in) to (n, out)."""


def transposed_linear(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """The fastest in torch for a single row."""
    transposed = weight.detach().t().contiguous()
    if bias is None:
        return (lambda x: (x @ transposed).relu_()) if relu else transposed.__rmatmul__
    offset = bias.detach()
    return (
        (lambda x: torch.addmm(offset, x, transposed).relu_()) if relu else lambda x: torch.addmm(offset, x, transposed)
    )


def float32_linear(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """float32. The number of rows is not known in advance, so without the kernel both layouts are stored."""
    if kernels.can_multiply(weight):
        return kernels.KernelLinear(weight, bias, relu)
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled and weight.device.type == "cpu"):
        return transposed_linear(weight, bias, relu)
    many = onednn_linear(weight, bias, relu)
    if torch.get_num_threads() > 1:  # each reads a part, which gains more than the better layout
        return many
    few = transposed_linear(weight, bias, relu)
    return lambda x: few(x) if x.shape[0] == 1 else many(x)


def onednn_linear(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """The weight in oneDNN's layout, converted once. MKL would convert it at each product, which takes longer than the
    product of a few rows.
    """
    weight = weight.detach()
    ordered = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    offset, product = None if bias is None else bias.detach(), torch.ops.mkldnn._linear_pointwise.default
    activation = "relu" if relu else "none"
    return lambda x: product(x, ordered, offset, activation, [], "")


def float16_linear(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    if kernels.can_multiply(weight):
        return kernels.KernelLinear(weight, bias, relu, torch.float16)
    packed = torch.ops.quantized.linear_prepack_fp16(weight.detach(), None if bias is None else bias.detach())
    ops = torch.ops.quantized
    product = ops.linear_relu_dynamic_fp16.default if relu else ops.linear_dynamic_fp16.default
    return lambda x: product(x, packed)


def int8_linear(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    return (
        kernels.Int8KernelLinear(weight, bias, relu)
        if kernels.can_multiply_int8(weight)
        else fbgemm_linear(weight, bias, relu)
    )


def fbgemm_linear(weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """int8 without the kernel."""
    weight = weight.detach()
    # Seven bits: fbgemm adds pairs of products in 16 bits, which would overflow with eight bits without VNNI.
    scales = (weight.abs().amax(1).double() / 63).clamp_min(1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # quantized tensors are deprecated in favour of torchao
        rounded = torch.quantize_per_channel(weight, scales, torch.zeros(len(weight), dtype=torch.long), 0, torch.qint8)
    finite_bias = None if bias is None else bias.detach().clone()
    infinite = torch.zeros(0, dtype=torch.long)
    if finite_bias is not None:  # -inf cannot be rounded, and is filled in afterwards
        infinite = finite_bias.isinf().nonzero()[:, 0]
        finite_bias[infinite] = 0.0
    packed = torch.ops.quantized.linear_prepack(rounded, finite_bias)
    ops = torch.ops.quantized
    product = ops.linear_relu_dynamic.default if relu else ops.linear_dynamic.default
    if not len(infinite):
        return lambda x: product(x, packed, True)
    return lambda x: product(x, packed, True).index_fill_(1, infinite, -torch.inf)


class LinearFactory(Protocol):
    """Builds a linear layer from a weight (out, in) and a bias, followed by a ReLU in the same pass if `relu`."""

    def __call__(self, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear: ...


FACTORIES: dict[str, LinearFactory] = {FULL_PRECISION: float32_linear, "float16": float16_linear, "int8": int8_linear}


def linear_factory(precision: str) -> LinearFactory:
    """The factory for linear layers of this precision."""
    return specs.find_choice("precision", precision, FACTORIES)
