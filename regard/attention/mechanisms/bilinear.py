"""Bilinear attention, called "general" by Luong et al. 2015 (section 3.1).

    score = xᵀ W_h c                    W_h (dim, context_dim), one for each head; no key matrix, no scaling
    value = W_V c, or the context itself with values=False: V = Σ α c, one head

With one head, values=False and a layer with output_proj=False it is the attention of RNN translation and captioning,
softmax of h W^key M. Each head has a matrix of full width; all heads share the context as keys.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.attention.mechanisms.bilinear_form import BilinearForm
from regard.errors import UserError


class BilinearMechanism(BilinearForm):
    """Bilinear attention.

    Args:
        dim: Width of the queries' input.
        heads: Number of heads.
        values: Whether values are projected. False uses the context as values and needs one head.
        value_width: Width of the values of one head.
        **options: Options of `Mechanism`.
    """

    name = "bilinear"
    title = "bilinear (general)"
    citation = "Luong, Pham & Manning 2015, Effective Approaches to Attention-based Neural Machine Translation, 3.1"
    reason = "one matrix between query and context, which may differ in width; RNN decoders use it"

    def __init__(self, dim: int, heads: int, *, values: bool = True, value_width: int | None = None, **options: Any):
        if not values:
            width = options.get("context_dim") or dim
            if heads != 1 or value_width not in (None, width):
                raise UserError(
                    f"bilinear:values=false uses the context as values and needs one head of width {width}; given "
                    f"{heads} heads" + (f" of width {value_width}" if value_width else "")
                )
            value_width = width
        super().__init__(dim, heads, value_width=value_width, **options)
        self.q = self.score_matrices(key_bias=False)
        self.v = self.value_projection() if values else nn.Identity()
