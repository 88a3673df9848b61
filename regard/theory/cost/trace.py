"""Count the work and the span of a computation as it runs, at every operator below autograd, fused ones too.

    with Trace() as trace:
        layer(x)
    trace.flops, trace.span, trace.products

The span of a result is the largest span of its inputs plus that of the operator, so the longest chain is found however
the work is divided. torch's own counter reports 0 for fused attention and for an LSTM on a CPU.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.theory.cost.operator_costs import MOVE_OPERATORS, OperatorCost, operator_cost, operator_name

Depth = tuple[int, int, int]
"""span, serial, products (see operator_costs)."""
NO_DEPTH: Depth = (0, 0, 0)


@dataclass(frozen=True)
class MemoryRegion:
    """The part of its storage that a tensor covers, and the depth of the computation that wrote it."""

    start: int
    stop: int
    stride: tuple[int, ...]
    shape: tuple[int, ...]
    depth: Depth = NO_DEPTH

    def overlaps(self, other: MemoryRegion) -> bool:
        """Whether two regions may share an element. Different columns of one matrix, such as the gates of a recurrent
        network, do not."""
        if self.start >= other.stop or other.start >= self.stop:
            return False
        if self.stride != other.stride or len(self.stride) < 2 or self.stride[-1] != 1:
            return True
        row = self.stride[-2]
        if row < 1 or any(s % row for s in self.stride[:-1]):
            return True
        distance = (other.start - self.start) % row
        return distance < self.shape[-1] or row - distance < other.shape[-1]


class Trace(TorchDispatchMode):
    """Context manager that counts operators.

    Attributes:
        flops: FLOPs of matrix products, in all.
        other_ops: All other operations on numbers.
        span: Steps of the longest chain, with sums as trees.
        serial: Steps of the longest chain, with serial inner products.
        products: Matrix products of the longest chain.
        flops_by_op: FLOPs by operator.
        calls: Calls by operator.
        unknown_ops: Calls of operators without a rule.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.other_ops = 0
        self.span = self.serial = self.products = 0
        self.flops_by_op: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.unknown_ops: Counter[str] = Counter()
        self._regions: dict[StorageWeakRef, list[MemoryRegion]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        depths = [self._depth(t) for t in inputs]
        out = func(*args, **kwargs)
        name = operator_name(func)
        op = operator_cost(func, args, kwargs, out)
        if op is None:
            self.unknown_ops[name] += 1
            op = OperatorCost(span=1, serial=1)
        self.calls[name] += 1
        self.flops += op.flops
        self.other_ops += op.other
        if op.flops:
            self.flops_by_op[name] += op.flops
        depth = _add_depth(depths, op)
        outputs = [t for t in tree_leaves(out) if isinstance(t, Tensor)]
        if name in MOVE_OPERATORS and not name.endswith("_"):
            input_storages = {StorageWeakRef(t.untyped_storage()) for t in inputs}
            # a view writes nothing
            outputs = [t for t in outputs if StorageWeakRef(t.untyped_storage()) not in input_storages]
        for tensor in outputs:
            self._write(tensor, depth)
        return out

    def _depth(self, tensor: Tensor) -> Depth:
        region = memory_region(tensor)
        regions = self._regions.get(StorageWeakRef(tensor.untyped_storage()), [])
        return _add_depth([part.depth for part in regions if part.overlaps(region)], OperatorCost())

    def _write(self, tensor: Tensor, depth: Depth) -> None:
        storage, new = StorageWeakRef(tensor.untyped_storage()), memory_region(tensor, depth)
        others = [
            region
            for region in self._regions.get(storage, [])
            if (region.start, region.stride, region.shape) != (new.start, new.stride, new.shape)
        ]
        self._regions[storage] = [*others, new]
        self.span, self.serial = max(self.span, depth[0]), max(self.serial, depth[1])
        self.products = max(self.products, depth[2])


def memory_region(tensor: Tensor, depth: Depth = NO_DEPTH) -> MemoryRegion:
    """The region of a tensor."""
    start, shape, stride = int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride())
    extent = int(sum((size - 1) * step for size, step in zip(shape, stride, strict=True)))
    return MemoryRegion(start, start + extent + 1 if tensor.numel() else start, stride, shape, depth)


def _add_depth(depths: list[Depth], op: OperatorCost) -> Depth:
    span, serial, products = (max(column) for column in zip(*depths, strict=True)) if depths else NO_DEPTH
    return span + op.span, serial + op.serial, products + op.products
