"""What a text classifier takes and returns, and a helper for models that score some positions only.

A classifier is called as `model(ids, mask, sentences)`:

    ids        token ids, (b, n)
    mask       True for real tokens, (b, n), padding at the end; None if there is no padding
    sentences  number of each token's sentence in its document, (b, n); None for one sentence

and returns a `ClassifierOutput`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.attention.token_positions import QueryKeyPositions


@dataclass
class ClassifierOutput:
    """The output of a classifier.

    Attributes:
        logits: (b, classes).
        terms: Additional loss terms: name to (sum over the batch, weight).
        member_logits: Logits of each model of an ensemble, (members, b, classes). The loss is computed on these, and
            `logits` is their mean. None for a single model.
    """

    logits: Tensor
    terms: dict[str, tuple[Tensor, float]] = field(default_factory=dict)
    member_logits: Tensor | None = None


def all_real(ids: Tensor) -> Tensor:
    """The mask of a batch without padding, (b, n)."""
    return torch.ones_like(ids, dtype=torch.bool)


def document_positions(ids: Tensor) -> QueryKeyPositions:
    """Axis labels for pooling a document (b, n) into one vector."""
    return QueryKeyPositions(range(1), range(ids.shape[1]), "document", "tokens")


def select_positions(states: Tensor, indices: Tensor | None) -> Tensor:
    """Hidden states of some positions.

    Args:
        states: (b, n, dim).
        indices: Indices (k,) into the b · n positions of the flattened batch; None for all.

    Returns:
        (k, dim), or `states` unchanged.
    """
    return states if indices is None else states.flatten(0, 1).index_select(0, indices)
