"""Linear maps prepared for decoding, where a step is a few rows against every weight and reading the weights is what
takes the time.

    float32    the weight turned round once: torch multiplies a row with it up to three times as fast
    float16    the weight at half the bytes, rounded to 11 bits; the products are float32 (fbgemm)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard import named

WHOLE = "float32"

Linear = Callable[[Tensor], Tensor]
"""(n, in) to (n, out)."""


def whole(weight: Tensor, bias: Tensor | None) -> Linear:
    turned = weight.detach().t().contiguous()
    if bias is None:
        return turned.__rmatmul__
    add = bias.detach()
    return lambda x: torch.addmm(add, x, turned)


def half(weight: Tensor, bias: Tensor | None) -> Linear:
    packed = torch.ops.quantized.linear_prepack_fp16(weight.detach(), None if bias is None else bias.detach())
    product = torch.ops.quantized.linear_dynamic_fp16
    return lambda x: product(x, packed)


KINDS: dict[str, Callable[[Tensor, Tensor | None], Linear]] = {WHOLE: whole, "float16": half}


def linear(precision: str) -> Callable[[Tensor, Tensor | None], Linear]:
    """How linear maps of this precision are made of weight (out, in) and bias."""
    return named.find("precision", precision, KINDS)
