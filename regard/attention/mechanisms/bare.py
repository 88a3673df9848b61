"""Multi-head attention without biases, scaling and output matrix; key width U and value width I may differ.

    score = (W_Q x)·(W_K c)             W_Q, W_K (U, dim), W_V (I, dim) for each head; no bias, no scaling
    out   = [head_1; ...; head_K]       I = dim / K

Courses write the Transformer's layer in this form. scaled=True divides the scores by sqrt(U); the standard layer then
differs by its biases and output matrix only.
"""

from __future__ import annotations

from typing import Any

from regard.attention.mechanisms.dot import DotMechanism


class BareMechanism(DotMechanism):
    """Dot-product attention without biases, scaling and output matrix.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        scaled: Divide the scores by sqrt(key_width).
        bias: Ignored; there are no biases.
        **options: Options of `QKVMechanism`.
    """

    name = "bare"
    title = "bare heads"
    citation = "Vaswani et al. 2017, 3.2.2, without W_O, bias and scaling (TTIC 31230, 2020, attention problem 4)"
    reason = "minimal multi-head attention, to measure what scaling, biases and the output matrix add"
    output_proj = False
    packed = False

    def __init__(self, dim: int, heads: int, *, scaled: bool = False, bias: bool = True, **options: Any):
        super().__init__(dim, heads, bias=False, **options)
        self.scaled = scaled

    @property
    def scale(self) -> float:
        return super().scale if self.scaled else 1.0
