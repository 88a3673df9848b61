"""What a model that names a class gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Classified:
    """logits (b, classes), and further terms of the loss: name -> (sum over the batch, weight)."""

    logits: Tensor
    terms: dict[str, tuple[Tensor, float]] = field(default_factory=dict)
