"""Work and span of a computation as it runs: every operator is seen below autograd, fused ones too.

    with Trace() as trace:
        layer(x)
    trace.flops, trace.span, trace.products

The span of a result is that of its latest input and one operator more, so the longest chain comes out by itself,
however the work was dealt out. torch's own counter knows no fused attention and no LSTM on a CPU: it reports 0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.theory.cost.operator_costs import MOVES, Op, name_of, rule

Depth = tuple[int, int, int]
"""span, serial, products"""
NEW: Depth = (0, 0, 0)


@dataclass(frozen=True)
class Part:
    """What a tensor covers of its memory, and how deep in the computation that stands."""

    start: int
    stop: int
    stride: tuple[int, ...]
    shape: tuple[int, ...]
    depth: Depth = NEW

    def touches(self, other: Part) -> bool:
        """Whether they may share a number. Columns of one matrix, which gates of a recurrent net are, do not."""
        if self.start >= other.stop or other.start >= self.stop:
            return False
        if self.stride != other.stride or len(self.stride) < 2 or self.stride[-1] != 1:
            return True
        row = self.stride[-2]
        if row < 1 or any(s % row for s in self.stride[:-1]):
            return True
        apart = (other.start - self.start) % row
        return apart < self.shape[-1] or row - apart < other.shape[-1]


class Trace(TorchDispatchMode):
    """`flops` and `other` add up; `span`, `serial` and `products` are those of the longest chain. `by` says which
    operator did how many FLOPs, `unknown` which had no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.other_ops = 0
        self.span = self.serial = self.products = 0
        self.flops_by_op: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.unknown_ops: Counter[str] = Counter()
        self._written: dict[StorageWeakRef, list[Part]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        depths = [self._depth(t) for t in given]
        out = func(*args, **kwargs)
        name = name_of(func)
        op = rule(func, args, kwargs, out)
        if op is None:
            self.unknown_ops[name] += 1
            op = Op(span=1, serial=1)
        self.calls[name] += 1
        self.flops += op.flops
        self.other_ops += op.other
        if op.flops:
            self.flops_by_op[name] += op.flops
        depth = _deepest(depths, op)
        made = [t for t in tree_leaves(out) if isinstance(t, Tensor)]
        if name in MOVES and not name.endswith("_"):
            ours = {StorageWeakRef(t.untyped_storage()) for t in given}
            made = [t for t in made if StorageWeakRef(t.untyped_storage()) not in ours]  # a view wrote nothing
        for tensor in made:
            self._write(tensor, depth)
        return out

    def _depth(self, tensor: Tensor) -> Depth:
        here = part_of(tensor)
        written = self._written.get(StorageWeakRef(tensor.untyped_storage()), [])
        return _deepest([part.depth for part in written if part.touches(here)], Op())

    def _write(self, tensor: Tensor, depth: Depth) -> None:
        where, new = StorageWeakRef(tensor.untyped_storage()), part_of(tensor, depth)
        kept = [
            p
            for p in self._written.get(where, [])
            if (p.start, p.stride, p.shape) != (new.start, new.stride, new.shape)
        ]
        self._written[where] = [*kept, new]
        self.span, self.serial = max(self.span, depth[0]), max(self.serial, depth[1])
        self.products = max(self.products, depth[2])


def part_of(tensor: Tensor, depth: Depth = NEW) -> Part:
    start, shape, stride = int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride())
    reach = int(sum((size - 1) * step for size, step in zip(shape, stride, strict=True)))
    return Part(start, start + reach + 1 if tensor.numel() else start, stride, shape, depth)


def _deepest(depths: list[Depth], op: Op) -> Depth:
    span, serial, products = (max(column) for column in zip(*depths, strict=True)) if depths else NEW
    return span + op.span, serial + op.serial, products + op.products
