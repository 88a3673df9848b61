"""A frozen Hugging Face model as a classifier: logistic regression on the mean of its last hidden states.

--models han,frozen:folder=all-MiniLM-L6-v2
"""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
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
from regard.models.linear_text_model import softmax as class_probabilities
from regard.tasks.classify.dataset import encode_targets
from regard.tasks.classify.metrics import compute_metrics
from regard.tasks.classify.run import Prediction
from regard.training import atomic_write

logger = logging.getLogger(__name__)

CONFIG_NAME = "frozen.json"
MAX_TOKENS = 256
"""Longer texts are truncated."""
BATCH_SIZE = 16
REGULARIZATION_C = 10.0


class ImportedClassifier(ABC):
    """The part of a classification run that a comparison uses."""

    fitted = None
    model: nn.Module

    def __init__(self, folder: Path, config: dict[str, Any]):
        self.folder, self.config = folder, config
        self.labels: list[str] = config["labels"]
        self.encoder = TextEncoder(config["source"])

    @abstractmethod
    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return the class probabilities, (texts, classes)."""

    def look(self, text: str, **options: Any) -> Any:
        raise UserError("the attention of imported models is not shown in a comparison")

    def predict(self, text: str) -> Prediction:
        probabilities = dict(zip(self.labels, self.probabilities([text])[0].tolist(), strict=True))
        return Prediction(max(probabilities, key=probabilities.__getitem__), probabilities)


class FrozenClassifier(ImportedClassifier):
    """An imported encoder with a logistic regression."""

    def __init__(self, folder: Path, config: dict[str, Any], weight: np.ndarray, bias: np.ndarray):
        super().__init__(folder, config)
        self.model, self.weight, self.bias = self.encoder.model, weight, bias

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        return class_probabilities(self.encoder(texts) @ self.weight.T + self.bias)


class TextEncoder:
    """Maps texts to vectors: the mean of the last hidden states over the tokens."""

    def __init__(self, folder: str | Path):
        from tokenizers import Tokenizer

        self.model, tokenizer_file, _ = load_folder(folder)
        if tokenizer_file is None or not hasattr(self.model, "hidden_states"):
            raise UserError(f"{folder} cannot be a classifier: it needs a tokenizer.json, and a BERT or a GPT-2")
        self.tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.tokenizer.no_padding()

    @property
    def num_params(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids or [0] for encoding in self.tokenizer.encode_batch(list(texts))]

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        rows = self.encode_ids(texts)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # similar lengths need little padding
        vectors: list[np.ndarray] = [np.empty(0)] * len(rows)
        for start in range(0, len(rows), BATCH_SIZE):
            indices = order[start : start + BATCH_SIZE]
            ids, mask = pad_ids([rows[i] for i in indices])
            for i, vector in zip(indices, mean_hidden_state(self.model, ids, mask).numpy(), strict=True):
                vectors[i] = vector
        return np.stack(vectors)


def pad_ids(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return padded ids and their mask, both (b, n)."""
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return ids, torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]


def mean_hidden_state(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the last hidden states over the tokens, (b, dim)."""
    return (model.hidden_states(ids, mask=mask) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def check_options(task: str, options: Mapping[str, Any]) -> None:
    """Raise unless the options of an imported model are a folder that can be loaded, for a classification task."""
    if task != "classify":
        raise UserError(f"imported models can be compared for the task 'classify', not for {task!r}")
    if set(options) != {"name", "folder"}:
        raise UserError(f"an imported model needs its folder: {options['name']}:folder=FOLDER")
    TextEncoder(options["folder"])


def read_examples(parts: Path) -> tuple[dict[str, list[str]], dict[str, np.ndarray], list[str]]:
    """Return texts and class indices of the training and validation parts, and the classes."""
    tables = {part: read_table(parts / f"{part}.jsonl", text="text", label="label") for part in ("train", "valid")}
    classes = list_classes(tables["train"].labels)
    targets = {part: encode_targets(table.labels or [], classes, None) for part, table in tables.items()}
    return {part: table.texts for part, table in tables.items()}, targets, classes


def build_config(options: Mapping[str, Any], classes: list[str], **entries: Any) -> dict[str, Any]:
    """Return the config of a run of an imported model."""
    return {"labels": classes, "source": str(Path(options["folder"]).absolute()), **entries}


def fit(options: Mapping[str, Any], parts: Path, folder: Path, seed: int) -> None:
    """Fit the logistic regression on the training part, and save it."""
    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter()
    texts, targets, classes = read_examples(parts)
    encoder = TextEncoder(options["folder"])
    regression = LogisticRegression(C=REGULARIZATION_C, max_iter=2000, random_state=seed)
    regression.fit(encoder(texts["train"]), targets["train"])
    weight, bias = np.asarray(regression.coef_), np.asarray(regression.intercept_)
    if len(classes) == 2:  # scikit-learn has one row of weights for two classes
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    metrics = compute_metrics(class_probabilities(encoder(texts["valid"]) @ weight.T + bias), targets["valid"])
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write.replace_file(folder / "model.safetensors", save({"weight": weight, "bias": bias}))
    num_params = encoder.num_params + weight.size + bias.size
    seconds = time.perf_counter() - start
    config = build_config(options, classes, metrics=metrics, steps=0, parameters=num_params, seconds=seconds)
    atomic_write.replace_file(folder / CONFIG_NAME, json.dumps(config, indent=1).encode())
    logger.info(f"frozen: accuracy {metrics['accuracy']:.2%} on the validation part -> {folder}")


def is_finished(folder: Path) -> bool:
    return (folder / CONFIG_NAME).is_file()


def load(folder: Path) -> FrozenClassifier:
    weights = load_file(folder / "model.safetensors")
    config = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    return FrozenClassifier(folder, config, weights["weight"], weights["bias"])
