"""Cost of a layer by formula: parameters, FLOPs, memory, sequential steps and path length."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Cost:
    """Cost of a forward pass over one example. A multiply-add of a matrix product counts as two FLOPs.

    Args:
        params: Number of trained parameters.
        flops: FLOPs of the forward pass.
        memory: Bytes of all attention scores in float32. A fused kernel holds only a few of them at a time.
        steps: Operations that must run one after the other.
        path: Longest path between two positions, in layers.
    """

    params: int = 0
    flops: int = 0
    memory: int = 0
    steps: int = 1
    path: int = 1

    def __add__(self, other: Cost) -> Cost:
        """Cost of two parts of one layer. Steps and path are those of the longer part."""
        return Cost(
            self.params + other.params,
            self.flops + other.flops,
            self.memory + other.memory,
            max(self.steps, other.steps),
            max(self.path, other.path),
        )

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
