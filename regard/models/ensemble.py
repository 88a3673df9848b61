"""Several models of one design that vote: the mean of their logits, each trained on its own loss.

    z = (1/K) Σ_k z_k          softmax(z) is the normalised geometric mean of the members' chances
    loss = (1/K) Σ_k loss(z_k)

Members differ by their start and their dropout alone. What one of them has learnt by accident the others have not, so
the mean errs less than a member does in the mean (Hansen & Salamon 1990, Neural Network Ensembles).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.models.classifier_output import ClassifierOutput
from regard.models.data_hooks import UsesTrainingData


class Ensemble(nn.Module):
    """Members that name classes; their names at recorded places start with `members.0`, `members.1`, ..."""

    def __init__(self, members: Sequence[nn.Module]):
        super().__init__()
        self.members = nn.ModuleList(members)

    def fit_training_data(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        for member in self.members:
            if isinstance(member, UsesTrainingData):
                member.fit_training_data(ids, starts, labels)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor) -> ClassifierOutput:
        said: list[ClassifierOutput] = [member(ids, mask, sentences) for member in self.members]
        each = torch.stack([one.logits for one in said])
        terms = {
            name: (torch.stack([one.terms[name][0] for one in said]).mean(0), weight)
            for name, (_, weight) in said[0].terms.items()
        }
        return ClassifierOutput(each.mean(0), terms, each)
