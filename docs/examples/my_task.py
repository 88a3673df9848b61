"""A task of your own: predict a number from a text, such as the stars of a review.

    regard train rate reviews.csv --import my_task.py --set data.text=review --set data.label=stars
    >>> regard.import_file("my_task.py"); regard.load("runs/reviews-transformer").predict("A film to forget.")

A task reads data, builds a tokenizer and a model, and gives the training loop an objective: batches, a loss and
metrics. Its runs have the methods of its run class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import regard
from regard.config.settings import DataSettings, Settings, setting
from regard.data.batches import plan_batches
from regard.data.documents import TokenizedDocuments, encode_documents
from regard.data.read_table import read_table
from regard.data.tokenizer import Tokenizer, train_tokenizer
from regard.models.transformer_classifier import TransformerClassifierConfig
from regard.tasks.classify.objective import DocumentBatch, call_model, collate, sentence_ids
from regard.training.objective import LossTerm


@dataclass(frozen=True)
class RateDataSettings(DataSettings):
    """The table and its columns."""

    train: str = setting("", "Table with a column of texts and a column of numbers.")
    text: str | None = setting(None, "Column of the text. [guessed]")
    label: str | None = setting(None, "Column of the number. [guessed]")


@dataclass(frozen=True)
class RateSettings(Settings):
    """Settings of `rate`."""

    data: RateDataSettings = field(default_factory=RateDataSettings)


@dataclass(frozen=True)
class RateDataset:
    """Texts and their numbers. `info` is written to config.json."""

    texts: list[str]
    numbers: np.ndarray
    valid_texts: list[str]
    valid_numbers: np.ndarray
    info: dict[str, Any]


@dataclass(frozen=True)
class RateBatch:
    """A batch: `inputs` has the token ids, the mask and the sentences; numbers (b,)."""

    inputs: DocumentBatch
    numbers: Tensor

    @property
    def counts(self) -> dict[str, float]:
        """How many items each term of the loss sums over."""
        return {"error": float(len(self.numbers))}

    @property
    def tokens(self) -> int:
        return self.inputs.tokens


class RateObjective:
    """Squared error. The best checkpoint has the smallest error on the validation part."""

    monitor = "squared_error"
    mode: Literal["max", "min"] = "min"

    def __init__(
        self,
        train: TokenizedDocuments,
        numbers: np.ndarray,
        valid: TokenizedDocuments,
        valid_numbers: np.ndarray,
        batch_tokens: int,
        seed: int,
    ):
        self.train, self.numbers, self.valid, self.valid_numbers = train, numbers, valid, valid_numbers
        self.batch_tokens, self.seed = batch_tokens, seed

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch: arrays of row numbers. Training can resume, so they depend on the seed only."""
        return plan_batches(self.train.lengths, self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> RateBatch:
        return build_batch(self.train, self.numbers, indices)

    def loss(self, model: nn.Module, batch: RateBatch) -> Mapping[str, LossTerm]:
        """The terms of the loss, each summed over the batch; the loop divides by `counts`."""
        return {"error": LossTerm((predict(model, batch) - batch.numbers).square().sum())}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        batch = build_batch(self.valid, self.valid_numbers, np.arange(len(self.valid)))
        return {"squared_error": float((predict(model, batch) - batch.numbers).square().mean())}


def build_batch(documents: TokenizedDocuments, numbers: np.ndarray, indices: np.ndarray) -> RateBatch:
    inputs = collate(documents, sentence_ids(documents), np.zeros(len(documents), np.int64), indices)
    return RateBatch(inputs, torch.from_numpy(numbers[indices].astype(np.float32)))


def predict(model: nn.Module, batch: RateBatch) -> Tensor:
    """Predicted numbers, (b,)."""
    return call_model(model, batch.inputs.ids, batch.inputs.mask, batch.inputs.sentences).logits[:, 0]


class RateRun(regard.Run):
    """A trained run of `rate`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("predict",)

    @torch.no_grad()
    def predict(self, text: str) -> float:
        documents = encode_documents([text], self.tokenizer)
        return float(predict(self.model, build_batch(documents, np.zeros(1), np.arange(1))))


class RateTask(regard.Task[RateSettings, RateDataset]):
    """Predict a number from a text."""

    name = "rate"
    settings_class = RateSettings
    run_class = RateRun

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return "transformer"

    def read_dataset(self, settings: RateSettings, source: Any) -> RateDataset:
        data = settings.data
        table = source or read_table(data.train, text=data.text, label=data.label)
        numbers = np.array([float(label) for label in table.labels or []])
        order = np.random.default_rng(settings.seed).permutation(len(numbers))
        count = max(1, round(data.valid_fraction * len(numbers)))
        train, valid = order[count:], order[:count]
        info = {
            "train": {"name": Path(data.train or "table").name, "fingerprint": table.fingerprint, "rows": len(train)},
            "valid": {"rows": len(valid)},
        }
        texts = [[table.texts[i] for i in rows] for rows in (train, valid)]
        return RateDataset(texts[0], numbers[train], texts[1], numbers[valid], info)

    def build_tokenizer(self, settings: RateSettings, dataset: RateDataset) -> Tokenizer:
        return train_tokenizer(dataset.texts, settings.tokenizer.kind, settings.tokenizer.vocab_size)

    def build_model(self, settings: RateSettings, config: Mapping[str, Any]) -> nn.Module:
        return settings.model.build(config["vocab_size"], 1)

    def build_objective(
        self, settings: RateSettings, dataset: RateDataset, tokenizer: Tokenizer, folder: Path, progress: bool
    ) -> tuple[RateObjective, str]:
        train, valid = (encode_documents(texts, tokenizer) for texts in (dataset.texts, dataset.valid_texts))
        objective = RateObjective(
            train, dataset.numbers, valid, dataset.valid_numbers, settings.data.batch_tokens, settings.seed
        )
        return objective, f"{len(train):,} texts"

    def format_size(self, info: Mapping[str, Any]) -> str:
        return f"{info['rows']:,} rows"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        return ["regard verify FOLDER"]


regard.register_model("rate", "transformer")(TransformerClassifierConfig)
