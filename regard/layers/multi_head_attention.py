"""Multi-head attention over any mechanism: the mechanism scores, the seam attends, one matrix joins the heads.

    head_i = Attend(score_i(x, memory), W_V^i memory)        out = W_O [head_1; ...; head_h]      (Vaswani 2017, 3.2.2)

`output=False` is the bare layer: the heads concatenated, with no matrix after them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.attention import mechanisms
from regard.attention.cost import Cost
from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.masks import Mask, as_mask
from regard.attention.mechanisms.mechanism import Mechanism, merge_heads
from regard.attention.positions import build as build_positions
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Attend
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.errors import UserError


class MultiHeadAttention(nn.Module):
    """`MultiHead(64, 4)(x)` is self-attention; `(x, memory)` regards another sequence; `causal=True` hides the
    future."""

    def __init__(
        self,
        dim: int,
        heads: int,
        mechanism: str | Mechanism = "dot",
        *,
        positions: str | PositionEncoding | None = None,
        context_dim: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        output: bool | None = None,
        **options: Any,
    ):
        super().__init__()
        if isinstance(mechanism, Mechanism) and (positions, context_dim, value_width, options) != (
            None,
            None,
            None,
            {},
        ):
            raise UserError(
                f"a ready {mechanism.name!r} has its positions, widths and options already: give them to the mechanism"
            )
        if isinstance(mechanism, Mechanism) and (mechanism.dim, mechanism.heads) != (dim, heads):
            raise UserError(
                f"a ready {mechanism.name!r} of width {mechanism.dim} with {mechanism.heads} heads does not fit a "
                f"layer of width {dim} with {heads}"
            )
        placed = build_positions(positions, dim, heads)
        if isinstance(positions, str) and placed.kind == "embed":
            raise UserError(
                f"{positions} positions are added to the words before the first layer, where a model does it; a layer "
                "alone takes those that act inside attention: rotary, t5, alibi"
            )
        self.mechanism = mechanisms.build(
            mechanism,
            dim,
            heads,
            context_dim=context_dim,
            value_width=value_width,
            positions=placed,
            bias=bias,
            **options,
        )
        self.attend = Attend(dropout)
        width = heads * self.mechanism.value_width
        joined = self.mechanism.output_proj if output is None else output
        self.out = nn.Linear(width, dim, bias) if joined else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | KVCache | None = None,
        *,
        mask: Mask | Tensor | None = None,
        causal: bool = False,
        position_ids: PositionIds | None = None,
        query_axis: str = "tokens",
        key_axis: str = "tokens",
    ) -> Tensor:
        """x (b, q, dim), memory (b, k, context_dim) or one that was read before; `mask` is about the memory's keys."""
        position_ids = range(x.shape[1]) if position_ids is None else position_ids
        b, n, _ = x.shape
        k = n if memory is None else len(memory) if isinstance(memory, KVCache) else memory.shape[1]
        checked = as_mask(mask, causal=causal, b=b, q=n, k=k, h=self.mechanism.heads)
        real = None if checked is None else checked.key_mask
        if memory is None:
            q, keys, values = self.mechanism.project_qkv(_without_padding(x, real), position_ids)
            memory = KVCache(keys, values, position_ids)
        else:
            if not isinstance(memory, KVCache):
                memory = self.project_kv(memory, mask=None if real is None else Mask(key_mask=real))
            q = self.mechanism.project_query(x, position_ids)
        return self._regard(q, memory, checked, position_ids, query_axis, key_axis)

    def project_kv(
        self, memory: Tensor, *, mask: Mask | Tensor | None = None, position_ids: PositionIds | None = None
    ) -> KVCache:
        """Read a memory once, to be regarded many times."""
        if not self.mechanism.supports_cross_attention:
            raise UserError(
                f"mechanism {self.mechanism.name!r} is about a sequence's own places and cannot regard another memory"
            )
        real = _real(mask, *memory.shape[:2])
        position_ids = range(memory.shape[1]) if position_ids is None else position_ids
        keys, values = self.mechanism.project_kv(_without_padding(memory, real), position_ids)
        return KVCache(keys, values, position_ids, real, max_lookback=self.mechanism.max_lookback)

    def step(
        self,
        x: Tensor,
        past: KVCache | None = None,
        *,
        mask: Mask | Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> tuple[Tensor, KVCache]:
        """The next places of a causal sequence: step by step equals all at once. x (b, new, dim); mask (b, new) says
        which of the new places are real, and is remembered."""
        position_ids = next_position_ids(past, x.shape[1]) if position_ids is None else position_ids
        real = _real(mask, *x.shape[:2])
        q, keys, values = self.mechanism.project_qkv(_without_padding(x, real), position_ids)
        new = KVCache(keys, values, position_ids, real, max_lookback=self.mechanism.max_lookback)
        memory = new if past is None else past.extend(new)
        return self._regard(q, memory, Mask(causal=True), position_ids, "tokens", "tokens"), memory

    def _regard(
        self, q: Tensor, memory: KVCache, mask: Mask | None, position_ids: PositionIds, query_axis: str, key_axis: str
    ) -> Tensor:
        if memory.key_mask is not None:
            mask = mask or Mask()
            mask = replace(mask, key_mask=memory.key_mask if mask.key_mask is None else memory.key_mask & mask.key_mask)
        scores = self.mechanism.score(
            q, memory.keys, QueryKeyPositions(position_ids, memory.position_ids, query_axis, key_axis)
        )
        context = self.attend(scores, memory.values, mask)
        return self.out(merge_heads(context))

    def cost(self, n: int, m: int | None = None) -> Cost:
        cost = self.mechanism.cost(n, m)
        if isinstance(self.out, nn.Linear):
            params = sum(p.numel() for p in self.out.parameters())
            cost = cost + Cost(params, 2 * n * self.out.in_features * self.out.out_features)
        return cost


def _real(mask: Mask | Tensor | None, b: int, k: int) -> Tensor | None:
    """Which keys of a memory are real, (b, k)."""
    checked = as_mask(mask, causal=False, b=b, q=k, k=k)
    if checked is not None and checked.attn_mask is not None:
        raise UserError("a memory is read before its queries are known: its mask is about keys, (batch, keys)")
    return None if checked is None or checked.key_mask is None else checked.key_mask.expand(b, k)


def _without_padding(x: Tensor, real: Tensor | None) -> Tensor:
    """Padding becomes zeros before it is read, so that not even NaN in it passes through a weight of zero, forward or
    backward."""
    return x if real is None else x.masked_fill(~real[..., None], 0.0)
