"""Claim about parallel time: the longest chain of operators, with sums as trees or with serial inner products."""

from __future__ import annotations

import math

import torch
from torch import nn

from regard.layers.spatial_attention import SpatialAttention
from regard.theory.claim import CheckResult, Claim
from regard.theory.claims.check_helpers import seeded
from regard.theory.claims.layer_costs import TOPIC, trace_layer, trace_reference, trace_scores
from regard.theory.cost import Trace, reference_layers


def gains_per_doubling(spans: dict, axis: int) -> set[int]:
    """Return the increases of the span when the size at `axis` of the key doubles and the other sizes stay equal."""
    gains = set()
    for key, span in spans.items():
        for other_key, other_span in spans.items():
            factor = other_key[axis] / key[axis]
            others_equal = all(a == b for i, (a, b) in enumerate(zip(key, other_key, strict=True)) if i != axis)
            if factor in (2, 4) and others_equal:
                gains.add(round((other_span - span) / math.log2(factor), 6))  # type: ignore[arg-type]
    return gains


def check_parallel_time(seed: int) -> CheckResult:
    sizes = (16, 64, 256)
    attention = {(t, j): trace_reference("self-attention", t, j) for t in sizes for j in sizes}
    tree_span = {key: trace.span for key, trace in attention.items()}
    serial_span = {key: trace.serial for key, trace in attention.items()}
    softmax_span = {(t, u): trace_scores(t, u).serial for t in sizes for u in sizes}
    with seeded(0):
        spatial = {(x, j): trace_layer(SpatialAttention(j, 1), 1, x, x, j).span for x in (4, 8, 16) for j in (16, 64)}
    rnn = {
        (t, layers, j): trace_layer(reference_layers.StackedRNNCells(j, layers), 1, t, j).span
        for t, layers in ((8, 1), (4, 5), (16, 1), (8, 9), (16, 9))
        for j in (16, 256)
    }
    cnn = {(layers, k, j): strided_cnn_span(layers, k, j) for layers in (2, 4, 8) for k in (2, 4) for j in (16, 64)}
    per_position = {j: (rnn[16, 1, j] - rnn[8, 1, j]) / 8 for j in (16, 256)}
    figures = {
        "self-attention, steps gained when T doubles": sorted(gains_per_doubling(tree_span, 0)),
        "self-attention, steps gained when J doubles": sorted(gains_per_doubling(tree_span, 1)),
        "spatial, steps gained when X and Y double": sorted(gains_per_doubling(spatial, 0)),
        "RNN, steps by (T, L, J)": {str(k): v for k, v in rnn.items()},
        "RNN, steps per position at J = 16 and 256": list(per_position.values()),
        "CNN, steps of L layers over L, by (k, J)": {
            str((k, j)): sorted({cnn[layers, k, j] / layers for layers in (2, 4, 8)}) for k in (2, 4) for j in (16, 64)
        },
        "serial inner products: softmax, steps at U = 16, 64, 256": [softmax_span[64, u] for u in sizes],
        "serial inner products: layer, steps at J = 16, 64, 256": [serial_span[64, j] for j in sizes],
        "serial, steps gained when T doubles": sorted(gains_per_doubling(softmax_span, 0)),
    }
    return CheckResult(
        figures,
        {
            "self-attention O(log T + log J)": all(len(gains_per_doubling(tree_span, axis)) == 1 for axis in (0, 1)),
            "spatial O(log XY + log J)": all(len(gains_per_doubling(spatial, axis)) == 1 for axis in (0, 1)),
            "RNN O((T + L) log J)": rnn[8, 1, 16] == rnn[4, 5, 16]
            and rnn[16, 1, 16] == rnn[8, 9, 16]
            and per_position[256] - per_position[16] == 4,
            "RNN O(T + L) at a fixed width": rnn[16, 9, 16] - rnn[16, 1, 16] == 8 * per_position[16],
            "CNN O(L(log k + log J))": all(
                cnn[2 * layers, k, j] == 2 * cnn[layers, k, j] for layers in (2, 4) for k in (2, 4) for j in (16, 64)
            )
            and cnn[2, 4, 16] - cnn[2, 2, 16] == 2
            and cnn[2, 2, 64] - cnn[2, 2, 16] == 4,
            "serial: O(U + log T) for a softmax": softmax_span[64, 64] - softmax_span[64, 16] == 48
            and softmax_span[64, 256] - softmax_span[64, 64] == 192
            and len(gains_per_doubling(softmax_span, 0)) == 1,
            "serial: O(J + log T) for the layer": (serial_span[64, 256] - serial_span[64, 64])
            == 4 * (serial_span[64, 64] - serial_span[64, 16]),
        },
        {
            "one layer at T = 256, J = 256, sums as trees": tree_span[256, 256],
            "the same with serial inner products": serial_span[256, 256],
        },
    )


def strided_cnn_span(layers: int, k: int, j: int) -> int:
    """Return the span of convolutions with stride k over k^layers positions.

    Longer texts are truncated, which does not change the span.
    """
    with seeded(0):
        convolutions = [nn.Conv1d(j, j, k, stride=k) for _ in range(layers)]
        x = torch.randn(1, j, min(k**layers, 4096))
    with torch.no_grad(), Trace() as trace:
        for convolution in convolutions:
            if x.shape[-1] < k:
                x = nn.functional.pad(x, (0, k - x.shape[-1]))
            x = torch.relu(convolution(x))
    return trace.span


CLAIMS = [
    Claim(
        "parallel-time",
        TOPIC,
        "exact",
        "With sums in logarithmic time: self-attention O(log T + log J), spatial O(log XY + log J), CNN "
        "O(L(log k + log J)), RNN O((T + L) log J); at a fixed width, CNN O(L) and RNN O(T + L). With serial inner "
        "products: O(U + log T) for a softmax, O(J + log T) for the layer.",
        "span: the longest chain of operators, a sum of k terms taking ⌈log2 k⌉",
        check_parallel_time,
        "mixing the two ways of counting",
    ),
]
