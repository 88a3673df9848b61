"""What a model that names a class gives back; and the places of a text that one wants to know of."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class ClassifierOutput:
    """logits (b, classes), and further terms of the loss: name -> (sum over the batch, weight); where several members
    vote, what each of them says (members, b, classes): these are trained, and `logits` is the vote."""

    logits: Tensor
    terms: dict[str, tuple[Tensor, float]] = field(default_factory=dict)
    each: Tensor | None = None


def pick(states: Tensor, places: Tensor | None) -> Tensor:
    """(b, n, dim) to (k, dim): the states at these places (k,), counted through all rows; all as they are for None."""
    return states if places is None else states.flatten(0, 1).index_select(0, places)
