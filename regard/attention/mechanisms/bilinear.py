"""Bilinear attention, called "general" by Luong et al. 2015 (section 3.1).

    score = xᵀ W_h m                    W_h (dim, context_dim), one for each head; no matrix for the keys, no scaling
    value = W_V m, or with values=False the memory itself: V = Σ α m, one head

With one head and values=False, in a layer with output=False, it is the attention of RNN translation and captioning,
softmax of h W^key M. Each head costs a matrix of the full widths; all heads share the memory as their keys.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.mechanisms.bilinear_form import against, matrices, towards, work
from regard.attention.mechanisms.mechanism import Mechanism, split_heads
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.errors import UserError


class BilinearMechanism(Mechanism):
    name = "bilinear"
    title = "bilinear (general)"
    citation = "Luong, Pham & Manning 2015, Effective Approaches to Attention-based Neural Machine Translation, 3.1"
    reason = "one matrix between query and memory, of different widths if need be; what RNN decoders use"
    accepts = frozenset({"none", "embed", "bias"})

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        context_dim: int | None = None,
        value_width: int | None = None,
        positions: PositionEncoding | None = None,
        bias: bool = True,
        values: bool = True,
    ):
        if not values:
            own = context_dim or dim
            if heads != 1 or value_width not in (None, own):
                raise UserError(
                    f"bilinear:values=false reads the memory itself: one head of width {own}; given {heads} heads"
                    + (f" of width {value_width}" if value_width else "")
                )
            value_width = own
        super().__init__(dim, heads, context_dim=context_dim, value_width=value_width, positions=positions, bias=bias)
        self.q = matrices(dim, self.context_dim, heads, key_bias=False)
        self.v = projection(self.context_dim, heads * self.value_width, bias) if values else nn.Identity()

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return towards(self.q, x, self.heads)

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        return x[:, None], split_heads(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        bias = self.positions.bias(qk_positions.q_pos, qk_positions.k_pos)
        return against(query, keys, self.value_width, bias, qk_positions)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        flops = work(n, m, self.dim, self.context_dim, self.heads, self.value_width)
        if isinstance(self.v, nn.Linear):
            flops += 2 * m * self.context_dim * self.heads * self.value_width
        return Cost(self.params(), flops, 4 * self.heads * n * m)
