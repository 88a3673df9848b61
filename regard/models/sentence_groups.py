"""Sentences of a batch of documents in groups of similar length, so that little padding is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.attention.token_positions import QueryKeyPositions
from regard.models.classifier_output import all_real

SENTENCE_LENGTH = 20
"""Words of a sentence in cost formulas."""


def sentence_counts(n: int) -> tuple[int, int]:
    """Sentences of a text of n words, and words of the longest one, for cost formulas."""
    return -(-n // SENTENCE_LENGTH), min(n, SENTENCE_LENGTH)


@dataclass(frozen=True)
class SentenceGroup:
    """Sentences of similar length as rows.

    Attributes:
        tokens: Indices into the flattened batch, (rows, words).
        positions: Positions of the words in their document, (rows, words).
        mask: True for real words, (rows, words).
        lengths: Words of each sentence, (rows,).
        document: Document of each sentence, (rows,).
        sentence: Number of each sentence in its document, (rows,).
    """

    tokens: Tensor
    positions: Tensor
    mask: Tensor
    lengths: Tensor
    document: Tensor
    sentence: Tensor


@dataclass(frozen=True)
class SentenceGroups:
    """All groups of a batch.

    Attributes:
        counts: Number of sentences of each document, (b,).
        max_sentences: The largest of these.
    """

    groups: list[SentenceGroup]
    counts: Tensor
    max_sentences: int

    def __iter__(self) -> Iterator[SentenceGroup]:
        return iter(self.groups)

    @property
    def sentence_mask(self) -> Tensor:
        """True for real sentences, (b, max_sentences)."""
        return torch.arange(self.max_sentences, device=self.counts.device) < self.counts[:, None]

    @property
    def sentence_positions(self) -> QueryKeyPositions:
        """Axis labels for pooling the sentences of a document."""
        return QueryKeyPositions(range(1), range(self.max_sentences), "document", "sentences")


def group_sentences(
    ids: Tensor,
    mask: Tensor | None,
    sentences: Tensor | None,
    *,
    min_fill: float = 0.75,
    min_rows: int = 16,
) -> tuple[SentenceGroups, Tensor]:
    """Group the sentences of a batch by length.

    Args:
        ids: Token ids, (b, n).
        mask: True for real tokens, (b, n); None if there is no padding.
        sentences: Number of each token's sentence in its document, (b, n); None for one sentence.
        min_fill: Every sentence of a group has at least this fraction of the words of the longest one.
        min_rows: Groups with fewer sentences than this are merged all the same.

    Returns:
        The groups, and the mask.
    """
    mask = all_real(ids) if mask is None else mask
    sentences = torch.zeros_like(ids) if sentences is None else sentences
    b, n = mask.shape
    token = mask.flatten().nonzero()[:, 0]
    document = token // n
    key = document * (n + 1) + sentences.flatten()[token]
    starts = torch.cat((key.new_zeros(min(1, len(key))), (key[1:] != key[:-1]).nonzero()[:, 0] + 1))
    lengths = torch.diff(starts, append=starts.new_tensor([len(token)])) if len(starts) else starts
    documents = document[starts] if len(starts) else starts
    counts = torch.bincount(documents, minlength=b)
    numbers = torch.arange(len(starts), device=mask.device) - (counts.cumsum(0) - counts)[documents]

    order = lengths.argsort(descending=True, stable=True)
    sorted_lengths = lengths[order].cpu().numpy()
    groups, first = [], 0
    while first < len(sorted_lengths):
        width = int(sorted_lengths[first])
        last = int(np.searchsorted(-sorted_lengths, -min_fill * width, side="right"))
        last = min(len(sorted_lengths), max(last, first + min_rows))
        if len(sorted_lengths) - last < min_rows // 2:
            last = len(sorted_lengths)
        rows = order[first:last]
        columns = torch.arange(width, device=mask.device)
        is_real = columns < lengths[rows, None]
        index = token[(starts[rows, None] + columns).clamp(max=len(token) - 1)]
        groups.append(SentenceGroup(index, index % n, is_real, lengths[rows], documents[rows], numbers[rows]))
        first = last
    return SentenceGroups(groups, counts, max(1, int(counts.max()) if b else 1)), mask
