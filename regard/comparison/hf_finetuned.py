"""A fine-tuned Hugging Face model as a classifier: a linear layer on the mean of its last hidden states, all trained.

--models han,tuned:folder=all-MiniLM-L6-v2 --vary lr=...
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.comparison.hf_frozen import (
    ImportedClassifier,
    TextEncoder,
    build_config,
    mean_hidden_state,
    pad_ids,
    read_examples,
)
from regard.config.settings import TrainSettings, build_dataclass
from regard.data import batches
from regard.models.linear_text_model import softmax as class_probabilities
from regard.tasks.classify.metrics import compute_metrics
from regard.training import atomic_write
from regard.training.checkpoint import load_weights
from regard.training.loop import fit as fit_loop
from regard.training.objective import LossTerm

CONFIG_NAME = "tuned.json"
BATCH_TOKENS = 2048
LEARNING_RATE = 5e-5
"""The default for fine-tuning, much smaller than for training from scratch."""


class EncoderWithHead(nn.Module):
    """An encoder with a linear layer for the classes."""

    def __init__(self, encoder: nn.Module, num_classes: int):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(encoder.config.dim, num_classes)  # type: ignore[union-attr, arg-type]

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return logits (b, classes) for ids and mask (b, n)."""
        return self.head(mean_hidden_state(self.encoder, ids, mask))


@dataclass(frozen=True)
class Batch:
    """Padded ids and mask (b, n), and class indices (b,)."""

    ids: Tensor
    mask: Tensor
    labels: Tensor

    @property
    def counts(self) -> dict[str, float]:
        return {"classes": float(len(self.labels))}

    @property
    def tokens(self) -> int:
        return int(self.mask.sum())


class FineTuningObjective:
    """Cross-entropy over the classes, for the training loop."""

    monitor = "accuracy"
    mode: Literal["max", "min"] = "max"

    def __init__(self, rows: Mapping[str, list[list[int]]], targets: Mapping[str, np.ndarray], seed: int):
        self.rows, self.targets, self.seed = rows, targets, seed

    def plan(self, epoch: int) -> list[np.ndarray]:
        lengths = [len(row) for row in self.rows["train"]]
        return batches.plan_batches(lengths, BATCH_TOKENS, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        ids, mask = pad_ids([self.rows["train"][i] for i in indices])
        return Batch(ids, mask, torch.from_numpy(self.targets["train"][indices]))

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, LossTerm]:
        return {"classes": LossTerm(F.cross_entropy(model(batch.ids, batch.mask), batch.labels, reduction="sum"))}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return compute_metrics(predict_probabilities(model, self.rows["valid"]), self.targets["valid"])


@torch.no_grad()
def predict_probabilities(model: nn.Module, rows: Sequence[list[int]]) -> np.ndarray:
    """Return the class probabilities of each text, (texts, classes)."""
    plan = batches.plan_batches([len(row) for row in rows], BATCH_TOKENS, seed=0, epoch=0, shuffle=False)
    batched = np.concatenate([model(*pad_ids([rows[i] for i in indices])).numpy() for indices in plan])
    logits = np.empty_like(batched)
    logits[np.concatenate(plan)] = batched
    return class_probabilities(logits)


def build_training(
    options: Mapping[str, Any], parts: Path, seed: int
) -> tuple[EncoderWithHead, FineTuningObjective, list[str]]:
    """Return the model, the objective and the classes."""
    texts, targets, classes = read_examples(parts)
    encoder = TextEncoder(options["folder"])
    torch.manual_seed(seed)
    model = EncoderWithHead(encoder.model, len(classes))
    rows = {part: encoder.encode_ids(part_texts) for part, part_texts in texts.items()}
    return model, FineTuningObjective(rows, targets, seed), classes


def train_settings(settings: Mapping[str, Any]) -> TrainSettings:
    return build_dataclass(TrainSettings, {"lr": LEARNING_RATE, **(settings.get("train") or {})}, where="train")


def fit(settings: Mapping[str, Any], parts: Path, folder: Path, seed: int, progress: bool) -> None:
    """Train or resume, and save the config when it is finished."""
    options = settings["model"]
    model, objective, classes = build_training(options, parts, seed)
    result = fit_loop(model, objective, train_settings(settings), folder, seed=seed, resume=True, progress=progress)
    config = build_config(
        options,
        classes,
        metrics=result.metrics,
        steps=result.steps,
        seconds=result.seconds,
        parameters=sum(p.numel() for p in model.parameters()),
    )
    atomic_write.replace_file(folder / CONFIG_NAME, json.dumps(config, indent=1).encode())


class FineTunedClassifier(ImportedClassifier):
    """A fine-tuned encoder."""

    def __init__(self, folder: Path, config: dict[str, Any]):
        super().__init__(folder, config)
        self.model = EncoderWithHead(self.encoder.model, len(self.labels))
        load_weights(self.model, folder / "model.safetensors")
        self.model.eval()

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        return predict_probabilities(self.model, self.encoder.encode_ids(texts))


def is_finished(folder: Path) -> bool:
    return (folder / CONFIG_NAME).is_file()


def load(folder: Path) -> FineTunedClassifier:
    return FineTunedClassifier(folder, json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8")))
