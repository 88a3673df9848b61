"""Runs of `classify`: from the user's file to what training needs, and what a classifier's run is.

Rows are read, split and tokenized; what was found out on the way is told in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.data import documents, split, tokenizer
from regard.data.read import Table, require_classes
from regard.data.read import read as read_table
from regard.data.tokenizer import Tokenizer
from regard.models.fitted import Fitted
from regard.runs.classifier import Classifier, numbers
from regard.settings import DataSettings, Settings
from regard.tasks.classify import MODELS, Classify, metrics

__all__ = ["MODELS"]

DEFAULT = "han"
RUN = Classifier
USES = (
    "regard evaluate FOLDER FILE",
    'regard predict FOLDER "some text"',
    'regard look FOLDER "some text"',
)


@dataclass(frozen=True)
class Data(DataSettings):
    """Where the examples are, in which columns, and after how many tokens they are cut."""

    train: str = ""
    text: str | None = None
    label: str | None = None
    max_tokens: int | None = 2000


@dataclass(frozen=True)
class ClassifySettings(Settings):
    data: Data = field(default_factory=Data)


SETTINGS = ClassifySettings


@dataclass(frozen=True)
class Corpus:
    """Texts and class numbers of both parts."""

    texts: list[str]
    labels: np.ndarray
    valid_texts: list[str]
    valid_labels: np.ndarray
    classes: list[str]
    info: dict[str, Any]


def check(settings: ClassifySettings) -> None:
    pass


def check_config(config: Mapping[str, Any]) -> None:
    _ = config["labels"][0]


def read(settings: ClassifySettings, source: Table | None, say: Callable[[str], Any]) -> Corpus:
    """Read the data, and set a validation part aside where none is named."""
    data = settings.data
    table = source or read_table(data.train, text=data.text, label=data.label)
    for note in table.notes:
        say(note)
    classes = require_classes(table.labels)
    labels = numbers(table.labels or [], classes)
    if data.valid is not None:
        valid = read_table(data.valid, text=data.text, label=data.label)
        for note in valid.notes:
            say(f"validation: {note}")
        valid_labels = numbers(valid.labels or [], classes, data.valid)
        texts, valid_texts = table.texts, valid.texts
        valid_info = _info(valid, data.valid, len(valid_texts))
    else:
        kept, aside = split.split(table.labels or [], data.valid_fraction, settings.seed)
        texts, valid_texts = [table.texts[i] for i in kept], [table.texts[i] for i in aside]
        labels, valid_labels = labels[kept], labels[aside]
        valid_info = {"rows": len(valid_texts), "split": data.valid_fraction}
        say(f"{len(aside):,} of {len(table.texts):,} rows set aside for validation")
    repeated = split.duplicates(texts, valid_texts)
    if repeated:
        say(f"warning: {repeated:,} of the {len(valid_texts):,} validation documents stand in the training part too")
    info = {
        "train": _info(table, data.train or "given in Python", len(texts)),
        "valid": valid_info,
        "repeated": repeated,
    }
    return Corpus(texts, labels, valid_texts, valid_labels, classes, info)


def facts(found: Corpus) -> dict[str, Any]:
    return {"labels": found.classes}


def words(settings: ClassifySettings, found: Corpus) -> Tokenizer:
    """A tokenizer trained on the training part."""
    return tokenizer.train(found.texts, settings.tokenizer.kind, settings.tokenizer.vocab)


def net(settings: ClassifySettings, config: Mapping[str, Any]) -> nn.Module:
    return settings.model.build(config["vocab"], len(config["labels"]))


def task(
    settings: ClassifySettings, found: Corpus, words: Tokenizer, folder: Path, say: Callable[[str], Any]
) -> tuple[Classify, str]:
    """Both parts tokenized, as a task for the loop."""
    most = settings.data.max_tokens
    train = documents.encode(found.texts, words, max_tokens=most)
    valid = documents.encode(found.valid_texts, words, max_tokens=most)
    if train.cut:
        say(f"{train.cut:,} documents were longer than {most} tokens and are cut there (--set data.max_tokens=N)")
    job = Classify(
        train,
        found.labels,
        valid,
        found.valid_labels,
        classes=len(found.classes),
        batch_tokens=settings.data.batch_tokens,
        seed=settings.seed,
    )
    return job, f"{len(train):,} documents ({len(train.ids):,} tokens), {len(found.classes)} classes"


def fit(settings: ClassifySettings, found: Corpus) -> tuple[Fitted, dict[str, float]]:
    """A bag of words, fitted at once."""
    bag = settings.model.fit(found.texts, found.labels, len(found.classes), settings.seed)
    return bag, metrics(bag.probabilities(found.valid_texts), found.valid_labels)


def about(config: Mapping[str, Any]) -> str:
    labels = ", ".join(f"`{label}`" for label in config["labels"][:20])
    more = f" and {len(config['labels']) - 20} more" if len(config["labels"]) > 20 else ""
    return f"Classes: {labels}{more}."


def _info(table: Table, name: str, used: int) -> dict[str, Any]:
    return {
        "name": Path(name).name,
        "fingerprint": table.fingerprint,
        "rows": used,
        "notes": table.notes,
        "columns": list(table.columns),
    }
