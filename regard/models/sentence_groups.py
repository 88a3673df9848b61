"""Sentences of a batch of documents, gathered in groups of like length, so that little padding is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """Sentences as rows of (r, w). tokens: index into the flattened batch; at: place in the document."""

    tokens: Tensor
    at: Tensor
    mask: Tensor
    lengths: Tensor
    document: Tensor
    sentence: Tensor


@dataclass(frozen=True)
class Groups:
    """All groups, the number of sentences of each document (b,), and the largest of these numbers."""

    groups: list[Group]
    counts: Tensor
    most: int

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)


def sentence_groups(mask: Tensor, sentences: Tensor, *, slack: float = 0.75, least: int = 16) -> Groups:
    """Rows of a group are at least `slack` as long as its longest, unless the group would have fewer than `least`
    rows."""
    b, n = mask.shape
    token = mask.flatten().nonzero()[:, 0]
    document = token // n
    key = document * (n + 1) + sentences.flatten()[token]
    starts = torch.cat((key.new_zeros(min(1, len(key))), (key[1:] != key[:-1]).nonzero()[:, 0] + 1))
    lengths = torch.diff(starts, append=starts.new_tensor([len(token)])) if len(starts) else starts
    home = document[starts] if len(starts) else starts
    counts = torch.bincount(home, minlength=b)
    number = torch.arange(len(starts), device=mask.device) - (counts.cumsum(0) - counts)[home]

    order = lengths.argsort(descending=True, stable=True)
    descending = lengths[order].cpu().numpy()
    groups, first = [], 0
    while first < len(descending):
        width = int(descending[first])
        last = int(np.searchsorted(-descending, -slack * width, side="right"))
        last = min(len(descending), max(last, first + least))
        if len(descending) - last < least // 2:
            last = len(descending)
        row = order[first:last]
        place = torch.arange(width, device=mask.device)
        real = place < lengths[row, None]
        index = token[(starts[row, None] + place).clamp(max=len(token) - 1)]
        groups.append(Group(index, index % n, real, lengths[row], home[row], number[row]))
        first = last
    return Groups(groups, counts, max(1, int(counts.max()) if b else 1))
