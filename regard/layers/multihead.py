"""Multi-head attention over any mechanism: the mechanism scores, the seam attends, one matrix joins the heads.

    head_i = Attend(score_i(x, memory), W_V^i memory)        out = W_O [head_1; ...; head_h]      (Vaswani 2017, 3.2.2)

`output=False` is the bare layer: the heads concatenated, with no matrix after them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard import mechanisms, positions
from regard.cost import Cost
from regard.errors import UserError
from regard.masks import Mask, as_mask
from regard.mechanisms.base import Mechanism, heads_joined
from regard.memory import Memory
from regard.places import At, Places
from regard.positions.base import Positions
from regard.seam import Attend


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
        place = _positions(positions, dim, heads)
        self.mechanism = mechanisms.build(
            mechanism,
            dim,
            heads,
            memory_dim=memory_dim,
            value_width=value_width,
            positions=place,
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
        if memory is None:
            q, keys, values = self.mechanism.both(x, at)
            memory = _without_padding(Memory(keys, values, at, _key_mask(mask)))
        else:
            if not isinstance(memory, Memory):
                memory = self.remember(memory, mask=mask)
            q = self.mechanism.query(x, at)
        return self._regard(q, memory, mask, causal, at, rows, columns)

    def remember(self, memory: Tensor, *, mask: Mask | Tensor | None = None, at: At | None = None) -> Memory:
        """Read a memory once, to be regarded many times."""
        if not self.mechanism.cross and at is None:
            raise UserError(
                f"mechanism {self.mechanism.name!r} is about a sequence's own places and cannot regard another memory"
            )
        at = range(memory.shape[1]) if at is None else at
        keys, values = self.mechanism.remember(memory, at)
        return _without_padding(Memory(keys, values, at, _key_mask(mask), limit=self.mechanism.reach))

    def step(self, x: Tensor, past: Memory | None = None, *, at: At | None = None) -> tuple[Tensor, Memory]:
        """The next places of a causal sequence: step by step equals all at once. x (b, new, dim)."""
        if at is None:
            start = past.at.stop if past is not None and isinstance(past.at, range) else 0
            at = range(start, start + x.shape[1])
        q, keys, values = self.mechanism.both(x, at)
        new = Memory(keys, values, at, limit=self.mechanism.reach)
        memory = new if past is None else past.extend(new)
        return self._regard(q, memory, None, True, at, "tokens", "tokens"), memory

    def _regard(
        self, q: Tensor, memory: Memory, mask: Mask | Tensor | None, causal: bool, at: At, rows: str, columns: str
    ) -> Tensor:
        if memory.mask is not None and mask is None:
            mask = Mask(keys=memory.mask)
        checked = as_mask(mask, causal=causal, b=q.shape[0], q=q.shape[2], k=len(memory))
        scores = self.mechanism.score(q, memory.keys, Places(at, memory.at, rows, columns))
        context = self.attend(scores, memory.values, checked)
        return self.out(heads_joined(context))

    def cost(self, n: int, m: int | None = None) -> Cost:
        cost = self.mechanism.cost(n, m)
        if isinstance(self.out, nn.Linear):
            params = sum(p.numel() for p in self.out.parameters())
            cost = cost + Cost(params, 2 * n * self.out.in_features * self.out.out_features)
        return cost


def _positions(spec: str | Positions | None, dim: int, heads: int) -> Positions:
    return positions.build(spec, dim, heads)


def _key_mask(mask: Mask | Tensor | None) -> Tensor | None:
    if isinstance(mask, Mask):
        return mask.keys
    return mask if mask is not None and mask.dim() == 2 else None


def _without_padding(memory: Memory) -> Memory:
    """Padded keys and values become zeros, so that not even NaN in them can pass through a weight of zero."""
    if memory.mask is None or memory.mask.shape != (memory.keys.shape[0], len(memory)):
        return memory
    hidden = ~memory.mask[:, None, :, None]
    return replace(memory, keys=memory.keys.masked_fill(hidden, 0.0), values=memory.values.masked_fill(hidden, 0.0))
