"""Parallel time: the longest chain of operators, with sums as trees or inner products one after the other."""

from __future__ import annotations

import math

import torch
from torch import nn

from regard.layers.spatial_attention import SpatialAttention
from regard.theory.claim import Claim, CheckResult
from regard.theory.claims.check_helpers import seeded
from regard.theory.claims.layer_costs import TOPIC, compared, traced
from regard.theory.cost import Trace
from regard.theory.cost import reference_layers as layers


def parallel_time(seed: int) -> CheckResult:
    ts, js = (16, 64, 256), (16, 64, 256)
    attention = {(t, j): traced(layers.build("self-attention", j), 1, t, j) for t in ts for j in js}
    log = {key: trace.span for key, trace in attention.items()}
    serial = {key: trace.serial for key, trace in attention.items()}
    one = {(t, u): compared(t, u).serial for t in ts for u in js}
    with seeded(0):
        grids = {(x, j): traced(SpatialAttention(j, 1), 1, x, x, j).span for x in (4, 8, 16) for j in (16, 64)}
    depth = {}
    for t, levels in ((8, 1), (4, 5), (16, 1), (8, 9), (16, 9)):
        for j in (16, 256):
            depth[t, levels, j] = traced(layers.Cells(j, levels), 1, t, j).span
    cnn = {(levels, k, j): _tree_of_filters(levels, k, j) for levels in (2, 4, 8) for k in (2, 4) for j in (16, 64)}

    def doubled(table: dict, axis: int) -> set[int]:
        """What the span gains each time a size grows fourfold (twofold for a grid's side)."""
        gains = set()
        for key, value in table.items():
            for other, more in table.items():
                same = [a == b for a, b in zip(key, other, strict=True)]
                if other[axis] in (4 * key[axis], 2 * key[axis]) and all(s for i, s in enumerate(same) if i != axis):
                    gains.add(round((more - value) / math.log2(other[axis] / key[axis]), 6))  # type: ignore[arg-type]
        return gains

    per_cell = {j: (depth[16, 1, j] - depth[8, 1, j]) / 8 for j in (16, 256)}
    figures = {
        "self-attention, steps gained when T doubles": sorted(doubled(log, 0)),
        "self-attention, steps gained when J doubles": sorted(doubled(log, 1)),
        "spatial, steps gained when X and Y double": sorted(doubled(grids, 0)),
        "RNN, (T, L, J) to steps": {str(k): v for k, v in depth.items()},
        "RNN, steps a place at J = 16 and 256": list(per_cell.values()),
        "CNN, steps of L layers over L, by (k, J)": {
            str((k, j)): sorted({cnn[levels, k, j] / levels for levels in (2, 4, 8)}) for k in (2, 4) for j in (16, 64)
        },
        "serial inner products: softmax, steps at U = 16, 64, 256": [one[64, u] for u in js],
        "serial inner products: layer, steps at J = 16, 64, 256": [serial[64, j] for j in js],
        "serial, steps gained when T doubles": sorted(doubled(one, 0)),
    }
    return CheckResult(
        figures,
        {
            "self-attention O(log T + log J)": len(doubled(log, 0)) == 1 and len(doubled(log, 1)) == 1,
            "spatial O(log XY + log J)": len(doubled(grids, 0)) == 1 and len(doubled(grids, 1)) == 1,
            "RNN O((T + L) log J)": depth[8, 1, 16] == depth[4, 5, 16]
            and depth[16, 1, 16] == depth[8, 9, 16]
            and per_cell[256] - per_cell[16] == 4,
            "RNN O(T + L) with widths held": depth[16, 9, 16] - depth[16, 1, 16] == 8 * per_cell[16],
            "CNN O(L(log k + log J))": all(
                cnn[2 * levels, k, j] == 2 * cnn[levels, k, j] for levels in (2, 4) for k in (2, 4) for j in (16, 64)
            )
            and cnn[2, 4, 16] - cnn[2, 2, 16] == 2
            and cnn[2, 2, 64] - cnn[2, 2, 16] == 4,
            "serial: O(U + log T) for a softmax": one[64, 64] - one[64, 16] == 48
            and one[64, 256] - one[64, 64] == 192
            and len(doubled(one, 0)) == 1,
            "serial: O(J + log T) for the layer": (serial[64, 256] - serial[64, 64])
            == 4 * (serial[64, 64] - serial[64, 16]),
        },
        {
            "one layer at T = 256, J = 256, sums as trees": log[256, 256],
            "the same with serial inner products": serial[256, 256],
        },
    )


def _tree_of_filters(levels: int, k: int, j: int) -> int:
    """Span of strided layers on a text of k^levels places (shorter where that is long: the span does not mind)."""
    with seeded(0):
        filters = [nn.Conv1d(j, j, k, stride=k) for _ in range(levels)]
        x = torch.randn(1, j, min(k**levels, 4096))
    with torch.no_grad(), Trace() as trace:
        for one in filters:
            if x.shape[-1] < k:
                x = torch.nn.functional.pad(x, (0, k - x.shape[-1]))
            x = torch.relu(one(x))
    return trace.span


CLAIMS = [
    Claim(
        "parallel-time",
        TOPIC,
        "exact",
        "With sums in logarithmic time: self-attention O(log T + log J), spatial O(log XY + log J), CNN "
        "O(L(log k + log J)), RNN O((T + L) log J); with widths held, CNN O(L) and RNN O(T + L). With inner products "
        "added up one after the other: O(U + log T) for a softmax, O(J + log T) for the layer.",
        "span: the longest chain of operators, a sum of k taking ⌈log2 k⌉",
        parallel_time,
        "the two ways of counting mixed",
    ),
]
