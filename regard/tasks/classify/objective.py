"""Name the class of a document, or its several labels: batches of documents of like length.

one class          Σ w_y · -log softmax(z)_y / Σ w_y                                   w: how much classes weigh
several labels     mean over labels of -(w t log σ(z) + (1 - t) log(1 - σ(z)))         t: has it or not

With `smoothing` ε what is learnt is less sure than the label (Szegedy et al. 2016, Rethinking the Inception
Architecture, section 7): of C classes each is wanted with ε/C and the label with 1 - ε more; of several labels each t
is (1 - ε) t + ε/2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data import batches
from regard.data.documents import TokenizedDocuments
from regard.tasks.classify.metrics import measures
from regard.training.objective import LossTerm


@dataclass(frozen=True)
class DocumentBatch:
    """ids, mask and the number of each token's sentence, each (b, n); labels: class numbers (b,) or memberships
    (b, classes); weight: what the documents weigh together."""

    ids: Tensor
    mask: Tensor
    sentences: Tensor
    labels: Tensor
    tokens: int
    weight: float

    @property
    def counts(self) -> dict[str, float]:
        return {"classes": self.weight, "penalty": float(len(self.labels))}


class ClassifyObjective:
    """The task that the loop trains on. `labels` are class numbers (n,), or memberships (n, classes) where a document
    may have several; `weights` (classes,) says how much classes weigh."""

    mode: Literal["max", "min"] = "max"

    def __init__(
        self,
        train: TokenizedDocuments,
        labels: np.ndarray,
        valid: TokenizedDocuments,
        valid_labels: np.ndarray,
        *,
        num_classes: int,
        batch_tokens: int,
        seed: int,
        class_weights: np.ndarray | None = None,
        label_smoothing: float = 0.0,
    ):
        # where classes weigh alike, so they do in choosing the best model
        self.monitor = "macro_f1" if class_weights is not None else "micro_f1" if labels.ndim == 2 else "accuracy"
        self.class_weights, self.label_smoothing = class_weights, label_smoothing
        self.train, self.labels, self.valid, self.valid_labels = train, labels, valid, valid_labels
        self.num_classes, self.batch_tokens, self.seed = num_classes, batch_tokens, seed
        self._numbers = sentence_numbers(train)

    def training_data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The training part as `regard.models.data_hooks` wants it."""
        many = self.labels if self.labels.ndim == 2 else np.eye(self.num_classes)[self.labels]
        return self.train.ids, self.train.starts, many

    def plan(self, epoch: int) -> list[np.ndarray]:
        return batches.plan_batches(self.train.lengths, self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> DocumentBatch:
        return collate(self.train, self._numbers, self.labels, indices, self.class_weights)

    def loss(self, model: nn.Module, batch: DocumentBatch) -> Mapping[str, LossTerm]:
        out = model(batch.ids, batch.mask, batch.sentences)
        weights = None if self.class_weights is None else torch.from_numpy(self.class_weights).to(out.logits)
        each = out.logits[None] if out.each is None else out.each
        loss = torch.stack([class_loss(logits, batch.labels, weights, self.label_smoothing) for logits in each]).mean()
        terms = {"classes": LossTerm(loss)}
        return terms | {name: LossTerm(total, weight) for name, (total, weight) in out.terms.items()}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        many = self.valid_labels.ndim == 2
        found = probabilities(model, self.valid, many=many, batch_tokens=2 * self.batch_tokens)
        return measures(found, self.valid_labels)


def class_loss(logits: Tensor, labels: Tensor, weights: Tensor | None, smoothing: float = 0.0) -> Tensor:
    """The sum over the batch; see above."""
    if labels.dim() == 1:
        return F.cross_entropy(logits, labels, weights, reduction="sum", label_smoothing=smoothing)
    wanted = (1 - smoothing) * labels + smoothing / 2
    return F.binary_cross_entropy_with_logits(logits, wanted, pos_weight=weights, reduction="sum") / labels.shape[1]


def sentence_numbers(documents: TokenizedDocuments) -> np.ndarray:
    """For each token of all documents, the number of its sentence within its document."""
    number = np.repeat(np.arange(len(documents.sentence_starts)), documents.sentence_lengths)
    first = np.repeat(documents.sentence_offsets[:-1], documents.lengths)
    return (number - first).astype(np.int32)


def collate(
    documents: TokenizedDocuments,
    numbers: np.ndarray,
    labels: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray | None = None,
) -> DocumentBatch:
    """The named documents as padded tensors."""
    lengths = documents.lengths[indices]
    place = np.arange(lengths.max())
    mask = place < lengths[:, None]
    token = np.where(mask, documents.starts[indices, None] + place, 0)
    ids = np.where(mask, documents.ids[token], 0)
    chosen = labels[indices]
    weight = weights[chosen].sum() if weights is not None and chosen.ndim == 1 else len(chosen)
    return DocumentBatch(
        torch.from_numpy(ids.astype(np.int64)),
        torch.from_numpy(mask),
        torch.from_numpy(np.where(mask, numbers[token], 0).astype(np.int64)),
        torch.from_numpy(chosen.astype(np.int64 if chosen.ndim == 1 else np.float32)),
        int(lengths.sum()),
        float(weight),
    )


def chances(logits: Tensor, many: bool = False) -> Tensor:
    """p(class) of logits (..., classes): they sum to one, unless there may be many."""
    return logits.float().sigmoid() if many else logits.float().softmax(-1)


@torch.no_grad()
def probabilities(
    model: nn.Module, documents: TokenizedDocuments, *, many: bool = False, batch_tokens: int = 16_384
) -> np.ndarray:
    """p(class) of each document, (n, classes), in their order."""
    device = next(model.parameters()).device
    numbers, labels = sentence_numbers(documents), np.zeros(len(documents), np.int64)
    rows: list[np.ndarray] = []
    plan = batches.plan_batches(documents.lengths, batch_tokens, seed=0, epoch=0, shuffle=False)
    for indices in plan:
        batch = collate(documents, numbers, labels, indices)
        out = model(batch.ids.to(device), batch.mask.to(device), batch.sentences.to(device))
        rows.append(chances(out.logits, many).cpu().numpy())
    order, found = np.concatenate(plan), np.concatenate(rows)
    back = np.empty_like(found)
    back[order] = found
    return back
