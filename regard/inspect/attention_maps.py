"""Attention maps of one example, (heads, queries, keys) per layer, assembled from the recorded calls.

A layer may be called once per decoding step or once per group of sentences; its calls are put together into one map.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds, position_tensor
from regard.inspect.record import AttentionCall, Recording


@dataclass(frozen=True)
class AttentionMap:
    """Attention weights (h, q, k) of one layer.

    `rows` and `columns` say what queries and keys are: "tokens", "sentences", "document", "hops" or "grid".
    """

    layer: str
    weights: Tensor
    rows: str
    columns: str


def attention_maps(recording: Recording, index: int, axis_sizes: Mapping[str, int]) -> list[AttentionMap]:
    """Return the maps of one example.

    Args:
        recording: What `record` returned.
        index: Number of the example in the batch.
        axis_sizes: Length of each axis of this example without padding, such as {"tokens": 17}.
    """
    return [_assemble(layer, recording.calls_of(layer), index, axis_sizes) for layer in recording.layers]


def _assemble(layer: str, calls: list[AttentionCall], index: int, axis_sizes: Mapping[str, int]) -> AttentionMap:
    first = calls[0]
    rows, columns = first.qk_positions.query_axis, first.qk_positions.key_axis
    q = axis_sizes.get(rows, max(_length(call.qk_positions.q_pos) for call in calls))
    k = axis_sizes.get(columns, max(_length(call.qk_positions.k_pos) for call in calls))
    weights = first.weights.new_zeros(first.weights.shape[1], q, k)
    for call in calls:
        for row in _batch_rows(call, index):
            q_pos, k_pos = _row(call.qk_positions.q_pos, row), _row(call.qk_positions.k_pos, row)
            valid_q, valid_k = q_pos < q, k_pos < k
            if call.mask is not None and call.mask.key_mask is not None:
                valid_k = valid_k & call.mask.key_mask[row if call.mask.key_mask.shape[0] > 1 else 0]
            cells = torch.meshgrid(q_pos[valid_q], k_pos[valid_k], indexing="ij")
            weights[:, cells[0], cells[1]] = call.weights[row][:, valid_q][:, :, valid_k]
    return AttentionMap(layer, weights, rows, columns)


def _batch_rows(call: AttentionCall, index: int) -> list[int]:
    """Rows of the batch that belong to the example: several where each sentence is a row."""
    if call.qk_positions.example_ids is None:
        return [index]
    return (call.qk_positions.example_ids == index).nonzero()[:, 0].tolist()


def _row(position_ids: PositionIds, row: int) -> Tensor:
    positions = position_tensor(position_ids)
    return positions if positions.dim() == 1 else positions[row if positions.shape[0] > 1 else 0]


def _length(position_ids: PositionIds) -> int:
    positions = position_tensor(position_ids)
    return int(positions.max()) + 1 if positions.numel() else 0
