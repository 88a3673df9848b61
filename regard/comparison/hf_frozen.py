"""A model imported from a Hugging Face folder takes part as it is: its states, averaged over the words of a text, with
logistic regression above. Nothing of the model itself is trained.

    --models han,frozen:folder=all-MiniLM-L6-v2
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save
from torch import Tensor, nn

from regard.data.read_table import list_classes, read_table
from regard.errors import UserError
from regard.hub import load_folder
from regard.models.linear_text_model import shares
from regard.tasks.classify.metrics import compute_metrics
from regard.tasks.classify.run import Prediction, as_numbers
from regard.training import atomic_write

logger = logging.getLogger(__name__)

NAME = "frozen.json"
MOST = 256
"""Tokens of a text that are read."""
BATCH = 16
STRENGTH = 10.0


class Frozen:
    """The imported model and the regression above; what the contest for classifiers asks of a run."""

    tokenizer, many = None, False

    def __init__(self, folder: Path, config: dict[str, Any], weight: np.ndarray, bias: np.ndarray):
        self.folder, self.config, self.weight, self.bias = folder, config, weight, bias
        self.labels: list[str] = config["labels"]
        self.model = Embedder(config["source"])

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        return shares(self.model(texts) @ self.weight.T + self.bias)

    def predict(self, text: str) -> Prediction:
        chances = dict(zip(self.labels, self.probabilities([text])[0].tolist(), strict=True))
        return Prediction(max(chances, key=chances.__getitem__), chances)


class Embedder:
    """Texts to vectors: the mean of the last states over the words."""

    def __init__(self, folder: str | Path):
        from tokenizers import Tokenizer

        self.net, words, _ = load_folder(folder)
        if words is None or not hasattr(self.net, "states"):
            raise UserError(f"{folder} cannot be used frozen: it wants a tokenizer.json, and a BERT or a GPT-2")
        self.words = Tokenizer.from_file(str(words))
        self.words.enable_truncation(MOST)
        self.words.no_padding()

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.net.parameters())

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        return [e.ids or [0] for e in self.words.encode_batch(list(texts))]

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        rows = self.rows(texts)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # little padding
        found: list[np.ndarray] = [np.empty(0)] * len(rows)
        for first in range(0, len(rows), BATCH):
            part = order[first : first + BATCH]
            ids, mask = padded([rows[i] for i in part])
            vectors = averaged(self.net, ids, mask).numpy()
            for i, vector in zip(part, vectors, strict=True):
                found[i] = vector
        return np.stack(found)


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """ids and mask, (b, n)."""
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return ids, torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]


def averaged(net: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """The mean of the last states over the real places, (b, dim)."""
    return (net.hidden_states(ids, mask=mask) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def check(task: str, options: Mapping[str, Any]) -> None:
    if task != "classify":
        raise UserError(f"imported models are compared as classifiers, and not for {task!r}")
    if set(options) != {"name", "folder"}:
        raise UserError(f"an imported model is named by its folder: {options['name']}:folder=DIR")
    Embedder(options["folder"])


def examples(parts: Path) -> tuple[dict[str, list[str]], dict[str, np.ndarray], list[str]]:
    """Texts and class numbers of the parts to learn from, and the classes."""
    tables = {part: read_table(parts / f"{part}.jsonl", text="text", label="label") for part in ("train", "valid")}
    classes = list_classes(tables["train"].labels)
    truth = {part: encode_targets(table.labels or [], classes, None) for part, table in tables.items()}
    return {part: table.texts for part, table in tables.items()}, truth, classes


def fit(task: str, options: Mapping[str, Any], parts: Path, folder: Path, seed: int) -> None:
    from sklearn.linear_model import LogisticRegression

    begun = time.perf_counter()
    texts, truth, classes = examples(parts)
    model = Embedder(options["folder"])
    regression = LogisticRegression(C=STRENGTH, max_iter=2000, random_state=seed)
    regression.fit(model(texts["train"]), truth["train"])
    weight, bias = np.asarray(regression.coef_), np.asarray(regression.intercept_)
    if len(classes) == 2:  # one line of weights says both
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    chances = shares(model(texts["valid"]) @ weight.T + bias)
    measured = compute_metrics(chances, truth["valid"])
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write.replace_file(folder / "model.safetensors", save({"weight": weight, "bias": bias}))
    config = {"labels": classes, "source": str(Path(options["folder"]).absolute()), "metrics": measured, "steps": 0}
    config |= {"parameters": model.parameters + weight.size + bias.size, "seconds": time.perf_counter() - begun}
    atomic_write.replace_file(folder / NAME, json.dumps(config, indent=1).encode())
    logger.info(f"frozen: accuracy {measured['accuracy']:.2%} on the validation part -> {folder}")


def finished(folder: Path) -> bool:
    return (folder / NAME).is_file()


def load(folder: Path) -> Frozen:
    found = load_file(folder / "model.safetensors")
    return Frozen(folder, json.loads((folder / NAME).read_text(encoding="utf-8")), found["weight"], found["bias"])
