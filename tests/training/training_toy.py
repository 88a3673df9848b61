"""A tiny task and model for the tests of training, and a script: `python training_toy.py '{"folder": ..., ...}'`.

Items are sequences of random tokens; the label says whether token 1 comes more often than token 2, and a second term
guesses the first token.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.config.settings import TrainSettings
from regard.training.interrupts import Interrupted
from regard.training.loop import TrainResult, fit
from regard.training.objective import LossTerm

VOCAB = 11


@dataclass
class Items:
    ids: Tensor
    labels: Tensor
    counts: dict[str, float]
    tokens: int


class Model(nn.Module):
    def __init__(self, dropout: float = 0.0, width: int = 17, tied: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.hidden = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.first = nn.Linear(width, VOCAB)
        self.label = nn.Linear(width, 2)
        if tied:
            self.first.weight = self.embed.weight

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.dropout(torch.relu(self.hidden(self.embed(ids))))
        x = self.norm(x.mean(dim=1))
        return self.label(x), self.first(x)


class Toy:
    monitor = "accuracy"
    mode = "max"

    def __init__(self, size: int = 60, batch: int = 13, seed: int = 0, slow: float = 0.0, poison: int | None = None):
        random = np.random.default_rng(seed)
        self.ids = random.integers(0, VOCAB, (size + 40, 7))
        self.labels = ((self.ids == 1).sum(1) > (self.ids == 2).sum(1)).astype(np.int64)
        self.size, self.width, self.seed, self.slow, self.poison = size, batch, seed, slow, poison
        self.evaluations = 0

    def plan(self, epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng((self.seed, epoch)).permutation(self.size)
        return [order[i : i + self.width] for i in range(0, self.size, self.width)]

    def batch(self, indices: np.ndarray, epoch: int) -> Items:
        ids = torch.from_numpy(self.ids[indices])
        # The second term counts only some of the items, so that parts are uneven.
        counts = {"label": float(len(indices)), "first": float((ids[:, 0] < 5).sum())}
        return Items(ids, torch.from_numpy(self.labels[indices]), counts, ids.numel())

    def loss(self, model: nn.Module, batch: Items) -> dict[str, LossTerm]:
        if self.slow:
            time.sleep(self.slow)
        label, first = model(batch.ids)
        some = batch.ids[:, 0] < 5
        total = F.cross_entropy(label, batch.labels, reduction="sum")
        if self.poison is not None and (batch.ids == torch.from_numpy(self.ids[self.poison])).all(1).any():
            total = total * float("nan")
        guess = F.cross_entropy(first[some], batch.ids[some, 0], reduction="sum")
        return {"label": LossTerm(total), "first": LossTerm(guess, weight=0.3)}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self.evaluations += 1
        assert not model.training
        label, _ = model(torch.from_numpy(self.ids[self.size :]))
        truth = torch.from_numpy(self.labels[self.size :])
        return {
            "accuracy": (label.argmax(1) == truth).float().mean().item(),
            "loss": F.cross_entropy(label, truth).item(),
        }


def train(folder: Path, *, seed: int = 3, dropout: float = 0.0, resume: bool = False, task=None, **k):
    """Train the toy with settings `k` from a model that hangs on the seed alone."""
    torch.manual_seed(seed)
    model = Model(dropout)
    settings = TrainSettings(**{"lr": 0.01, "threads": 1, **k})
    threads = torch.get_num_threads()
    try:
        result: TrainResult = fit(model, task or Toy(), settings, folder, seed=seed, resume=resume, progress=False)
    finally:
        torch.set_num_threads(threads)
    return model, result


def lines(folder: Path) -> list[dict]:
    """The lines of metrics.jsonl without the clock."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in found:
        line.pop("seconds")
    return found


def last_state(folder: Path) -> dict[str, bytes]:
    """The newest checkpoint without the clock."""
    newest = sorted((folder / "state").iterdir())[-1]
    files = {path.name: path.read_bytes() for path in newest.iterdir() if path.name != "manifest.json"}
    state = json.loads(files.pop("state.json"))
    state.pop("seconds")
    return {**files, "state": json.dumps(state).encode(), "name": newest.name.encode()}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are born deaf to it
    options = json.loads(sys.argv[1])
    toy = Toy(**options.pop("toy", {}))
    print("ready", flush=True)
    try:
        train(Path(options.pop("folder")), task=toy, **options)
    except Interrupted as stop:
        print(f"interrupted at {stop.step}", flush=True)
        sys.exit(3)
    print("done", flush=True)
