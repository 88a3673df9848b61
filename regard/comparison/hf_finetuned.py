"""A model imported from a Hugging Face folder takes part fine-tuned: all of it is trained, with a linear layer for the
classes above the mean of its last states.

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

from regard.comparison.hf_frozen import Embedder, averaged, examples, padded
from regard.config.settings import TrainSettings, build_dataclass
from regard.data import batches
from regard.models.linear_text_model import shares
from regard.tasks.classify.metrics import compute_metrics
from regard.tasks.classify.run import Prediction
from regard.training import atomic_write
from regard.training.checkpoint import load_weights
from regard.training.loop import fit as fit_loop
from regard.training.objective import LossTerm

NAME = "tuned.json"
TOKENS = 2048
LR = 5e-5
"""Far less than what a new model is trained with, as is usual for fine-tuning."""


class Tuned(nn.Module):
    def __init__(self, net: nn.Module, classes: int):
        super().__init__()
        self.net, self.head = net, nn.Linear(net.config.dim, classes)  # type: ignore[union-attr, arg-type]

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.head(averaged(self.net, ids, mask))


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    mask: Tensor
    labels: Tensor

    @property
    def counts(self) -> dict[str, float]:
        return {"classes": float(len(self.labels))}

    @property
    def tokens(self) -> int:
        return int(self.mask.sum())


class Job:
    """What the loop trains on."""

    monitor = "accuracy"
    mode: Literal["max", "min"] = "max"

    def __init__(self, rows: Mapping[str, list[list[int]]], truth: Mapping[str, np.ndarray], seed: int):
        self.rows, self.truth, self.seed = rows, truth, seed

    def plan(self, epoch: int) -> list[np.ndarray]:
        return batches.plan_batches([len(row) for row in self.rows["train"]], TOKENS, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        ids, mask = padded([self.rows["train"][i] for i in indices])
        return Batch(ids, mask, torch.from_numpy(self.truth["train"][indices]))

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, LossTerm]:
        return {"classes": LossTerm(F.cross_entropy(model(batch.ids, batch.mask), batch.labels, reduction="sum"))}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return compute_metrics(chances(model, self.rows["valid"]), self.truth["valid"])


@torch.no_grad()
def chances(model: nn.Module, rows: Sequence[list[int]]) -> np.ndarray:
    """p(class) of each text, in their order."""
    plan = batches.plan_batches([len(row) for row in rows], TOKENS, seed=0, epoch=0, shuffle=False)
    found = np.concatenate([model(*padded([rows[i] for i in part])).numpy() for part in plan])
    back = np.empty_like(found)
    back[np.concatenate(plan)] = found
    return shares(back)


def ready(options: Mapping[str, Any], parts: Path, seed: int) -> tuple[Tuned, Job, list[str]]:
    texts, truth, classes = examples(parts)
    source = Embedder(options["folder"])
    torch.manual_seed(seed)
    return Tuned(source.net, len(classes)), Job({p: source.rows(t) for p, t in texts.items()}, truth, seed), classes


def settings(tree: Mapping[str, Any]) -> TrainSettings:
    return build_dataclass(TrainSettings, {"lr": LR, **(tree.get("train") or {})}, where="train")


def fit(tree: Mapping[str, Any], parts: Path, folder: Path, seed: int, progress: bool) -> None:
    """Train, or go on."""
    net, job, classes = ready(tree["model"], parts, seed)
    done = fit_loop(net, job, settings(tree), folder, seed=seed, resume=True, progress=progress)
    config = {"labels": classes, "source": str(Path(tree["model"]["folder"]).absolute()), "metrics": done.metrics}
    config |= {"steps": done.steps, "seconds": done.seconds, "parameters": sum(p.numel() for p in net.parameters())}
    atomic_write.replace_file(folder / NAME, json.dumps(config, indent=1).encode())


class Run:
    """What the contest for classifiers asks of a run."""

    tokenizer, many = None, False

    def __init__(self, folder: Path):
        self.folder, self.config = folder, json.loads((folder / NAME).read_text(encoding="utf-8"))
        self.labels: list[str] = self.config["labels"]
        self.source = Embedder(self.config["source"])
        self.model = Tuned(self.source.net, len(self.labels))
        load_weights(self.model, folder / "model.safetensors")
        self.model.eval()

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        return chances(self.model, self.source.rows(texts))

    def predict(self, text: str) -> Prediction:
        found = dict(zip(self.labels, self.probabilities([text])[0].tolist(), strict=True))
        return Prediction(max(found, key=found.__getitem__), found)


def finished(folder: Path) -> bool:
    return (folder / NAME).is_file()
