"""Training objective of `images`: cross-entropy over classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.tasks.classify.metrics import compute_metrics
from regard.tasks.classify.objective import classification_loss, to_probabilities
from regard.tasks.image_augmentation import augment_images
from regard.tasks.image_settings import AugmentSettings
from regard.training.objective import LossTerm

BATCH_SIZE = 128  # for prediction


@dataclass(frozen=True)
class ImageBatch:
    """A batch of images (b, height, width, channels) and class indices (b,)."""

    images: Tensor
    labels: Tensor

    @property
    def counts(self) -> dict[str, float]:
        return {"classes": float(len(self.labels))}

    @property
    def tokens(self) -> int:
        return len(self.labels)


class ImagesObjective:
    """Training objective of an image classifier."""

    monitor = "accuracy"
    mode: Literal["max", "min"] = "max"

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        valid_images: np.ndarray,
        valid_labels: np.ndarray,
        *,
        batch_size: int,
        seed: int,
        augment: AugmentSettings = AugmentSettings(),  # noqa: B008 - frozen
    ):
        self.images, self.labels, self.valid_images, self.valid_labels = images, labels, valid_images, valid_labels
        self.batch_size, self.seed, self.augment = batch_size, seed, augment

    def plan(self, epoch: int) -> list[np.ndarray]:
        permutation = np.random.default_rng([self.seed, epoch]).permutation(len(self.labels))
        return np.split(permutation, list(range(self.batch_size, len(permutation), self.batch_size)))

    def batch(self, indices: np.ndarray, epoch: int) -> ImageBatch:
        seeds = [self.seed, epoch, *indices[:2].tolist(), len(indices)]
        images = augment_images(self.images[indices], self.augment, seeds)
        return ImageBatch(images, torch.from_numpy(self.labels[indices].astype(np.int64)))

    def loss(self, model: nn.Module, batch: ImageBatch) -> Mapping[str, LossTerm]:
        return {"classes": LossTerm(classification_loss(model(batch.images).logits, batch.labels, None))}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return compute_metrics(predict_probabilities(model, self.valid_images), self.valid_labels)


@torch.no_grad()
def predict_probabilities(model: nn.Module, images: np.ndarray) -> np.ndarray:
    """Return the probability of each class for each image, (n, classes)."""
    device, rows = next(model.parameters()).device, []
    for start in range(0, len(images), BATCH_SIZE):
        batch = torch.from_numpy(np.array(images[start : start + BATCH_SIZE])).to(device)
        rows.append(to_probabilities(model(batch).logits).cpu().numpy())
    return np.concatenate(rows)
