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
from regard.attention.kv_cache import Memory, after
from regard.attention.masks import Mask, as_mask
from regard.attention.mechanisms.mechanism import Mechanism, heads_joined
from regard.attention.positions import build as build_positions
from regard.attention.positions.position_encoding import Positions
from regard.attention.scores import Attend
from regard.attention.token_positions import At, Places
from regard.errors import UserError


class MultiHead(nn.Module):
    """`MultiHead(64, 4)(x)` is self-attention; `(x, memory)` regards another sequence; `causal=True` hides the
    future."""

    def __init__(
        self,
        dim: int,
        heads: int,
        mechanism: str | Mechanism = "dot",
        *,
        positions: str | Positions | None = None,
        memory_dim: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        output: bool | None = None,
        **options: Any,
    ):
        super().__init__()
        if isinstance(mechanism, Mechanism) and (positions, memory_dim, value_width, options) != (None, None, None, {}):
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
            memory_dim=memory_dim,
            value_width=value_width,
            positions=placed,
            bias=bias,
            **options,
        )
        self.attend = Attend(dropout)
        width = heads * self.mechanism.value_width
        joined = self.mechanism.joined if output is None else output
        self.out = nn.Linear(width, dim, bias) if joined else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | Memory | None = None,
        *,
        mask: Mask | Tensor | None = None,
        causal: bool = False,
        at: At | None = None,
        rows: str = "tokens",
        columns: str = "tokens",
    ) -> Tensor:
        """x (b, q, dim), memory (b, k, memory_dim) or one that was read before; `mask` is about the memory's keys."""
        at = range(x.shape[1]) if at is None else at
        b, n, _ = x.shape
        k = n if memory is None else len(memory) if isinstance(memory, Memory) else memory.shape[1]
        checked = as_mask(mask, causal=causal, b=b, q=n, k=k, h=self.mechanism.heads)
        real = None if checked is None else checked.keys
        if memory is None:
            q, keys, values = self.mechanism.both(_without_padding(x, real), at)
            memory = Memory(keys, values, at)
        else:
            if not isinstance(memory, Memory):
                memory = self.remember(memory, mask=None if real is None else Mask(keys=real))
            q = self.mechanism.query(x, at)
        return self._regard(q, memory, checked, at, rows, columns)

    def remember(self, memory: Tensor, *, mask: Mask | Tensor | None = None, at: At | None = None) -> Memory:
        """Read a memory once, to be regarded many times."""
        if not self.mechanism.cross:
            raise UserError(
                f"mechanism {self.mechanism.name!r} is about a sequence's own places and cannot regard another memory"
            )
        real = _real(mask, *memory.shape[:2])
        at = range(memory.shape[1]) if at is None else at
        keys, values = self.mechanism.remember(_without_padding(memory, real), at)
        return Memory(keys, values, at, real, limit=self.mechanism.reach)

    def step(
        self,
        x: Tensor,
        past: Memory | None = None,
        *,
        mask: Mask | Tensor | None = None,
        at: At | None = None,
    ) -> tuple[Tensor, Memory]:
        """The next places of a causal sequence: step by step equals all at once. x (b, new, dim); mask (b, new) says
        which of the new places are real, and is remembered."""
        at = after(past, x.shape[1]) if at is None else at
        real = _real(mask, *x.shape[:2])
        q, keys, values = self.mechanism.both(_without_padding(x, real), at)
        new = Memory(keys, values, at, real, limit=self.mechanism.reach)
        memory = new if past is None else past.extend(new)
        return self._regard(q, memory, Mask(causal=True), at, "tokens", "tokens"), memory

    def _regard(self, q: Tensor, memory: Memory, mask: Mask | None, at: At, rows: str, columns: str) -> Tensor:
        if memory.mask is not None:
            mask = mask or Mask()
            mask = replace(mask, keys=memory.mask if mask.keys is None else memory.mask & mask.keys)
        scores = self.mechanism.score(q, memory.keys, Places(at, memory.at, rows, columns))
        context = self.attend(scores, memory.values, mask)
        return self.out(heads_joined(context))

    def cost(self, n: int, m: int | None = None) -> Cost:
        cost = self.mechanism.cost(n, m)
        if isinstance(self.out, nn.Linear):
            params = sum(p.numel() for p in self.out.parameters())
            cost = cost + Cost(params, 2 * n * self.out.in_features * self.out.out_features)
        return cost


def _real(mask: Mask | Tensor | None, b: int, k: int) -> Tensor | None:
    """Which keys of a memory are real, (b, k)."""
    checked = as_mask(mask, causal=False, b=b, q=k, k=k)
    if checked is not None and checked.pairs is not None:
        raise UserError("a memory is read before its queries are known: its mask is about keys, (batch, keys)")
    return None if checked is None or checked.keys is None else checked.keys.expand(b, k)


def _without_padding(x: Tensor, real: Tensor | None) -> Tensor:
    """Padding becomes zeros before it is read, so that not even NaN in it passes through a weight of zero, forward or
    backward."""
    return x if real is None else x.masked_fill(~real[..., None], 0.0)
