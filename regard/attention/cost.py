"""What a layer costs, by formula. FLOPs count two for each multiply-add of a matrix product, forward pass, one
example."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Cost:
    """params: trained numbers; flops: work; memory: bytes of all scores in float32, of which a fused kernel holds only
    a few at a time; steps: sequential steps, as n grows; path: longest way between two places, in layers."""

    params: int = 0
    flops: int = 0
    memory: int = 0
    steps: int = 1
    path: int = 1

    def __add__(self, other: Cost) -> Cost:
        """Side by side: work and memory add up, steps and paths are those of the longer one."""
        return Cost(
            self.params + other.params,
            self.flops + other.flops,
            self.memory + other.memory,
            max(self.steps, other.steps),
            max(self.path, other.path),
        )

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
