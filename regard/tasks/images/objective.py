"""Name the class of a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.tasks.classify.metrics import compute_metrics
from regard.tasks.classify.objective import to_probabilities, classification_loss
from regard.tasks.image_augmentation import augment_images
from regard.tasks.image_settings import AugmentSettings
from regard.training.objective import LossTerm

AT_ONCE = 128


@dataclass(frozen=True)
class PictureBatch:
    """pictures (b, height, width, 3) and class numbers (b,)."""

    pictures: Tensor
    labels: Tensor

    @property
    def counts(self) -> dict[str, float]:
        return {"classes": float(len(self.labels))}

    @property
    def tokens(self) -> int:
        return len(self.labels)


class See:
    """The task that the loop trains on."""

    monitor = "accuracy"
    mode: Literal["max", "min"] = "max"

    def __init__(
        self,
        pictures: np.ndarray,
        labels: np.ndarray,
        valid: np.ndarray,
        valid_labels: np.ndarray,
        *,
        batch: int,
        seed: int,
        augment: AugmentSettings = AugmentSettings(),  # noqa: B008 - frozen
    ):
        self.pictures, self.labels, self.valid, self.valid_labels = pictures, labels, valid, valid_labels
        self.size, self.seed, self.augment = batch, seed, augment

    def plan(self, epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.labels))
        return np.split(order, list(range(self.size, len(order), self.size)))

    def batch(self, indices: np.ndarray, epoch: int) -> PictureBatch:
        seen = augment_images(
            self.pictures[indices], self.augment, [self.seed, epoch, *indices[:2].tolist(), len(indices)]
        )
        return PictureBatch(seen, torch.from_numpy(self.labels[indices].astype(np.int64)))

    def loss(self, model: nn.Module, batch: PictureBatch) -> Mapping[str, LossTerm]:
        return {"classes": LossTerm(classification_loss(model(batch.pictures).logits, batch.labels, None))}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return compute_metrics(probabilities(model, self.valid), self.valid_labels)


@torch.no_grad()
def probabilities(model: nn.Module, pictures: np.ndarray) -> np.ndarray:
    """p(class) of each picture, (n, classes)."""
    device, rows = next(model.parameters()).device, []
    for first in range(0, len(pictures), AT_ONCE):
        part = torch.from_numpy(np.array(pictures[first : first + AT_ONCE])).to(device)
        rows.append(to_probabilities(model(part).logits).cpu().numpy())
    return np.concatenate(rows)
