"""Batches, loss and evaluation of text classifiers. A batch has documents of similar length.

one label          Σ w_y · -log softmax(z)_y / Σ w_y                                   w: class weights
several labels     mean over labels of -(w t log σ(z) + (1 - t) log(1 - σ(z)))         t: 1 if it has the label

With label smoothing ε (Szegedy et al. 2016, Rethinking the Inception Architecture, section 7) the target probability of
each of C classes is ε/C, and that of the label is 1 - ε more. With several labels each t becomes (1 - ε) t + ε/2.
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
from regard.models.classifier_output import ClassifierOutput
from regard.tasks.classify.metrics import compute_metrics
from regard.training.objective import LossTerm


@dataclass(frozen=True)
class DocumentBatch:
    """A batch of documents.

    Attributes:
        ids: Token ids, (b, n).
        mask: True for real tokens, (b, n).
        sentences: Number of each token's sentence in its document, (b, n).
        labels: Class numbers (b,), or 0/1 for each class (b, classes).
        tokens: Number of real tokens.
        weight: Sum of the weights of the documents.
    """

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
    """The objective of the training loop.

    Args:
        train: Training documents.
        labels: Class numbers (n,), or 0/1 for each class (n, classes).
        valid: Validation documents.
        valid_labels: Their labels.
        num_classes: Number of classes.
        batch_tokens: Tokens of a batch.
        seed: Seed of the order of the batches.
        class_weights: Weight of each class in the loss, (classes,).
        label_smoothing: ε.
    """

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
        # with class weights, rare classes count for the selection of the best checkpoint too
        self.monitor = "macro_f1" if class_weights is not None else "micro_f1" if labels.ndim == 2 else "accuracy"
        self.class_weights, self.label_smoothing = class_weights, label_smoothing
        self.train, self.labels, self.valid, self.valid_labels = train, labels, valid, valid_labels
        self.num_classes, self.batch_tokens, self.seed = num_classes, batch_tokens, seed
        self._sentence_ids = sentence_ids(train)

    def training_data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The training part for models that use all of it before the first step (regard.models.data_hooks)."""
        one_hot = self.labels if self.labels.ndim == 2 else np.eye(self.num_classes)[self.labels]
        return self.train.ids, self.train.starts, one_hot

    def plan(self, epoch: int) -> list[np.ndarray]:
        return batches.plan_batches(self.train.lengths, self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> DocumentBatch:
        return collate(self.train, self._sentence_ids, self.labels, indices, self.class_weights)

    def loss(self, model: nn.Module, batch: DocumentBatch) -> Mapping[str, LossTerm]:
        output = call_model(model, batch.ids, batch.mask, batch.sentences)
        weights = None if self.class_weights is None else torch.from_numpy(self.class_weights).to(output.logits)
        members = output.logits[None] if output.member_logits is None else output.member_logits
        losses = [classification_loss(logits, batch.labels, weights, self.label_smoothing) for logits in members]
        terms = {name: LossTerm(total, weight) for name, (total, weight) in output.terms.items()}
        return {"classes": LossTerm(torch.stack(losses).mean()), **terms}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        multi_label = self.valid_labels.ndim == 2
        probabilities = predict_probabilities(
            model, self.valid, multi_label=multi_label, batch_tokens=2 * self.batch_tokens
        )
        return compute_metrics(probabilities, self.valid_labels)


def call_model(model: nn.Module, ids: Tensor, mask: Tensor, sentences: Tensor) -> ClassifierOutput:
    """Call a classifier. A model that returns only its logits, (b, classes), is a classifier too."""
    output = model(ids, mask, sentences)
    return ClassifierOutput(output) if isinstance(output, Tensor) else output


def classification_loss(logits: Tensor, labels: Tensor, weights: Tensor | None, label_smoothing: float = 0.0) -> Tensor:
    """The loss, summed over the batch.

    Args:
        logits: (b, classes).
        labels: Class numbers (b,), or 0/1 for each class (b, classes).
        weights: Class weights, (classes,).
        label_smoothing: ε.
    """
    if labels.dim() == 1:
        return F.cross_entropy(logits, labels, weights, reduction="sum", label_smoothing=label_smoothing)
    targets = (1 - label_smoothing) * labels + label_smoothing / 2
    return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights, reduction="sum") / labels.shape[1]


def sentence_ids(documents: TokenizedDocuments) -> np.ndarray:
    """The number of each token's sentence in its document, (tokens of all documents,)."""
    sentence = np.repeat(np.arange(len(documents.sentence_starts)), documents.sentence_lengths)
    first = np.repeat(documents.sentence_offsets[:-1], documents.lengths)
    return (sentence - first).astype(np.int32)


def collate(
    documents: TokenizedDocuments,
    sentences: np.ndarray,
    labels: np.ndarray,
    indices: np.ndarray,
    class_weights: np.ndarray | None = None,
) -> DocumentBatch:
    """Build a padded batch.

    Args:
        documents: All documents.
        sentences: `sentence_ids(documents)`.
        labels: Labels of all documents.
        indices: The documents of the batch.
        class_weights: Class weights, (classes,).
    """
    lengths = documents.lengths[indices]
    positions = np.arange(lengths.max())
    mask = positions < lengths[:, None]
    tokens = np.where(mask, documents.starts[indices, None] + positions, 0)
    ids = np.where(mask, documents.ids[tokens], 0)
    batch_labels = labels[indices]
    one_label = batch_labels.ndim == 1
    weight = class_weights[batch_labels].sum() if class_weights is not None and one_label else len(batch_labels)
    return DocumentBatch(
        torch.from_numpy(ids.astype(np.int64)),
        torch.from_numpy(mask),
        torch.from_numpy(np.where(mask, sentences[tokens], 0).astype(np.int64)),
        torch.from_numpy(batch_labels.astype(np.int64 if one_label else np.float32)),
        int(lengths.sum()),
        float(weight),
    )


def to_probabilities(logits: Tensor, multi_label: bool = False) -> Tensor:
    """Logits (..., classes) to probabilities. With several labels each class has its own probability."""
    return logits.float().sigmoid() if multi_label else logits.float().softmax(-1)


@torch.no_grad()
def predict_probabilities(
    model: nn.Module, documents: TokenizedDocuments, *, multi_label: bool = False, batch_tokens: int = 16_384
) -> np.ndarray:
    """The probability of each class for each document, (documents, classes)."""
    device = next(model.parameters()).device
    sentences, no_labels = sentence_ids(documents), np.zeros(len(documents), np.int64)
    plan = batches.plan_batches(documents.lengths, batch_tokens, seed=0, epoch=0, shuffle=False)
    rows: list[np.ndarray] = []
    for indices in plan:
        batch = collate(documents, sentences, no_labels, indices)
        output = call_model(model, batch.ids.to(device), batch.mask.to(device), batch.sentences.to(device))
        rows.append(to_probabilities(output.logits, multi_label).cpu().numpy())
    by_length = np.concatenate(rows)
    probabilities = np.empty_like(by_length)
    probabilities[np.concatenate(plan)] = by_length
    return probabilities
