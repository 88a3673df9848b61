"""Name the class of a document: batches of documents of like length, cross entropy, accuracy and macro-F1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data import batches
from regard.data.documents import Documents
from regard.training.task import Term

MODELS = {
    "han": "regard.models.han",
    "context-han": "regard.models.context_han",
    "self-attentive": "regard.models.self_attentive",
    "transformer": "regard.models.encoder",
    "bilstm": "regard.models.bilstm",
    "cnn": "regard.models.language_cnn",
    "kim-cnn": "regard.models.kim_cnn",
    "tfidf": "regard.models.bag",
    "nb-svm": "regard.models.nb_svm",
}


@dataclass(frozen=True)
class DocumentBatch:
    """ids, mask and the number of each token's sentence, each (b, n); labels (b,)."""

    ids: Tensor
    mask: Tensor
    sentences: Tensor
    labels: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        n = float(len(self.labels))
        return {"classes": n, "penalty": n}


class Classify:
    """The task that the loop trains on. `labels` are class numbers."""

    monitor = "accuracy"
    mode: Literal["max", "min"] = "max"

    def __init__(
        self,
        train: Documents,
        labels: np.ndarray,
        valid: Documents,
        valid_labels: np.ndarray,
        *,
        classes: int,
        batch_tokens: int,
        seed: int,
    ):
        self.train, self.labels, self.valid, self.valid_labels = train, labels, valid, valid_labels
        self.classes, self.batch_tokens, self.seed = classes, batch_tokens, seed
        self._numbers = sentence_numbers(train)

    def plan(self, epoch: int) -> list[np.ndarray]:
        return batches.plan(self.train.lengths, self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> DocumentBatch:
        return collate(self.train, self._numbers, self.labels, indices)

    def loss(self, model: nn.Module, batch: DocumentBatch) -> Mapping[str, Term]:
        out = model(batch.ids, batch.mask, batch.sentences)
        terms = {"classes": Term(F.cross_entropy(out.logits, batch.labels, reduction="sum"))}
        return terms | {name: Term(total, weight) for name, (total, weight) in out.terms.items()}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return metrics(probabilities(model, self.valid, batch_tokens=2 * self.batch_tokens), self.valid_labels)


def sentence_numbers(documents: Documents) -> np.ndarray:
    """For each token of all documents, the number of its sentence within its document."""
    number = np.repeat(np.arange(len(documents.sentence_starts)), documents.sentence_lengths)
    first = np.repeat(documents.sentence_of[:-1], documents.lengths)
    return (number - first).astype(np.int32)


def collate(documents: Documents, numbers: np.ndarray, labels: np.ndarray, indices: np.ndarray) -> DocumentBatch:
    """The named documents as padded tensors."""
    lengths = documents.lengths[indices]
    place = np.arange(lengths.max())
    mask = place < lengths[:, None]
    token = np.where(mask, documents.starts[indices, None] + place, 0)
    ids = np.where(mask, documents.ids[token], 0)
    return DocumentBatch(
        torch.from_numpy(ids.astype(np.int64)),
        torch.from_numpy(mask),
        torch.from_numpy(np.where(mask, numbers[token], 0).astype(np.int64)),
        torch.from_numpy(labels[indices].astype(np.int64)),
        int(lengths.sum()),
    )


def chances(logits: Tensor) -> Tensor:
    """p(class) of logits (..., classes)."""
    return logits.float().softmax(-1)


@torch.no_grad()
def probabilities(model: nn.Module, documents: Documents, *, batch_tokens: int = 16_384) -> np.ndarray:
    """p(class) of each document, (n, classes), in their order."""
    device = next(model.parameters()).device
    numbers, labels = sentence_numbers(documents), np.zeros(len(documents), np.int64)
    rows: list[np.ndarray] = []
    plan = batches.plan(documents.lengths, batch_tokens, seed=0, epoch=0, shuffle=False)
    for indices in plan:
        batch = collate(documents, numbers, labels, indices)
        out = model(batch.ids.to(device), batch.mask.to(device), batch.sentences.to(device))
        rows.append(chances(out.logits).cpu().numpy())
    order, found = np.concatenate(plan), np.concatenate(rows)
    back = np.empty_like(found)
    back[order] = found
    return back


def metrics(chances: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, macro-F1 over the classes that occur, and the mean negative log-likelihood."""
    guess, classes = chances.argmax(1), chances.shape[1]
    right = np.bincount(labels[guess == labels], minlength=classes)
    said, true = np.bincount(guess, minlength=classes), np.bincount(labels, minlength=classes)
    seen = true > 0
    f1 = 2 * right[seen] / np.maximum(said[seen] + true[seen], 1)
    nll = -np.log(np.maximum(chances[np.arange(len(labels)), labels], 1e-12))
    return {
        "accuracy": float((guess == labels).mean()),
        "macro_f1": float(f1.mean()),
        "loss": float(nll.mean()),
    }
