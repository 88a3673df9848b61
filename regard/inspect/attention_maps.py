"""From recorded calls to the maps of one example: heads by rows by columns, whatever groups and steps they were
computed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.token_positions import At, indices
from regard.inspect.record import Call, Recording


@dataclass(frozen=True)
class AttentionMap:
    """weights (h, q, k) at one site; an axis is "tokens", "sentences", "document", "hops" or "grid"."""

    site: str
    weights: Tensor
    rows: str
    columns: str


def attention_maps(recording: Recording, item: int, sizes: Mapping[str, int]) -> list[AttentionMap]:
    """The maps of one example of the batch. `sizes` says how long its axes are, without padding."""
    return [_gather(site, recording.at(site), item, sizes) for site in recording.sites]


def _gather(site: str, calls: list[Call], item: int, sizes: Mapping[str, int]) -> AttentionMap:
    first = calls[0]
    rows, columns = first.places.rows, first.places.columns
    q = sizes.get(rows, max(_last(call.places.q_at) for call in calls))
    k = sizes.get(columns, max(_last(call.places.k_at) for call in calls))
    whole = first.weights.new_zeros(first.weights.shape[1], q, k)
    for call in calls:
        for row in _rows_of(call, item):
            q_at, k_at = _row(call.places.q_at, row), _row(call.places.k_at, row)
            weights, real = call.weights[row], k_at < k
            if call.mask is not None and call.mask.keys is not None:
                real = real & call.mask.keys[row if call.mask.keys.shape[0] > 1 else 0]
            mine = q_at < q
            place = torch.meshgrid(q_at[mine], k_at[real], indexing="ij")
            whole[:, place[0], place[1]] = weights[:, mine][:, :, real]
    return AttentionMap(site, whole, rows, columns)


def _rows_of(call: Call, item: int) -> list[int]:
    if call.places.item is None:
        return [item]
    return (call.places.item == item).nonzero()[:, 0].tolist()


def _row(at: At, row: int) -> Tensor:
    place = indices(at)
    return place if place.dim() == 1 else place[row if place.shape[0] > 1 else 0]


def _last(at: At) -> int:
    place = indices(at)
    return int(place.max()) + 1 if place.numel() else 0
