"""An ensemble of models of one design: the mean of their logits, each trained on its own loss.

    z = (1/K) Σ_k z_k          softmax(z) is the normalized geometric mean of the members' probabilities
    loss = (1/K) Σ_k loss(z_k)

Members differ only by their initialization and their dropout. Their errors are partly independent, so that the mean
errs less than a member does on average (Hansen & Salamon 1990, Neural Network Ensembles).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.layers.cost_formulas import PartCosts
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import ClassifierOutput
from regard.models.data_hooks import UsesTrainingData


class Ensemble(nn.Module):
    """Classifiers whose logits are averaged. Names of recorded layers start with `members.0`, `members.1`, ...

    Args:
        members: Untrained classifiers of the same classes.
    """

    def __init__(self, members: Sequence[nn.Module]):
        super().__init__()
        self.members = TypedModuleList[nn.Module](members)

    def fit_training_data(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        """Pass the training data to the members that use it."""
        for member in self.members:
            if isinstance(member, UsesTrainingData):
                member.fit_training_data(ids, starts, labels)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Arguments as for one member; returns the mean logits (b, classes) and those of each member."""
        outputs: list[ClassifierOutput] = [member(ids, mask, sentences) for member in self.members]
        member_logits = torch.stack([output.logits for output in outputs])
        terms = {
            name: (torch.stack([output.terms[name][0] for output in outputs]).mean(0), weight)
            for name, (_, weight) in outputs[0].terms.items()
        }
        return ClassifierOutput(member_logits.mean(0), terms, member_logits)

    def cost_parts(self, n: int, m: int) -> PartCosts:
        """The cost of all members by formula."""
        for i, member in enumerate(self.members):
            for part in member.cost_parts(n, m):  # type: ignore[operator]
                yield replace(part, name=f"members.{i}.{part.name}")
