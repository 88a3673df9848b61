"""Bilinear attention, called "general" by Luong et al. 2015 (section 3.1).

    score = xᵀ W_h m                    W_h (dim, memory_dim), one for each head; no matrix for the keys, no scaling
    value = W_V m, or with values=False the memory itself: V = Σ α m, one head

With one head and values=False, in a layer with output=False, it is the attention of RNN translation and captioning,
softmax of h W^key M. Each head costs a matrix of the full widths; all heads share the memory as their keys.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.mechanisms.bilinear_form import against, matrices, towards, work
from regard.attention.mechanisms.mechanism import Mechanism, heads_apart
from regard.attention.mechanisms.xavier_linear import projection
from regard.attention.positions.position_encoding import Positions
from regard.attention.scores import Scores
from regard.attention.token_positions import At, Places
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
        memory_dim: int | None = None,
        value_width: int | None = None,
        positions: Positions | None = None,
        bias: bool = True,
        values: bool = True,
    ):
        if not values:
            own = memory_dim or dim
            if heads != 1 or value_width not in (None, own):
                raise UserError(
                    f"bilinear:values=false reads the memory itself: one head of width {own}; given {heads} heads"
                    + (f" of width {value_width}" if value_width else "")
                )
            value_width = own
        super().__init__(dim, heads, memory_dim=memory_dim, value_width=value_width, positions=positions, bias=bias)
        self.q = matrices(dim, self.memory_dim, heads, key_bias=False)
        self.v = projection(self.memory_dim, heads * self.value_width, bias) if values else nn.Identity()

    def query(self, x: Tensor, at: At) -> Tensor:
        return towards(self.q, x, self.heads)

    def remember(self, x: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return x[:, None], heads_apart(self.v(x), self.heads)

    def score(self, query: Tensor, keys: Tensor, places: Places) -> Scores:
        bias = self.positions.bias(places.q_at, places.k_at)
        return against(query, keys, self.value_width, bias, places)

    def cost(self, n: int, m: int | None = None) -> Cost:
        m = n if m is None else m
        flops = work(n, m, self.dim, self.memory_dim, self.heads, self.value_width)
        if isinstance(self.v, nn.Linear):
            flops += 2 * m * self.memory_dim * self.heads * self.value_width
        return Cost(self.params(), flops, 4 * self.heads * n * m)
