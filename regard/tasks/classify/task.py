"""Runs of `classify`: from the user's file to what training needs, and what a classifier's run is.

Rows are read, split and tokenized; what was found out on the way is told in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.config.settings import DataSettings, Settings
from regard.config.validation import share
from regard.data import labels, tokenizer, train_valid_split
from regard.data.read_table import Table, require_classes
from regard.data.read_table import read as read_table
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError, nearest
from regard.inspect import attends
from regard.models.ensemble import Committee
from regard.models.linear_text_model import Fits, Fitted
from regard.tasks.classify.metrics import measures
from regard.tasks.classify.objective import MODELS, Classify
from regard.tasks.classify.run import Classifier, as_numbers, encoded
from regard.tasks.run_dir import settings_of

__all__ = ["MODELS"]

RUN = Classifier


@dataclass(frozen=True)
class Data(DataSettings):
    """Where the examples are, in which columns, and after how many tokens they are cut. `labels` is one or many a
    document, then parted by `separator` (found out where it is not named); `class_weights`: data/labels.py."""

    train: str = ""
    text: str | None = None
    label: str | None = None
    max_tokens: int | None = 2000
    labels: str = "one"
    separator: str | None = None
    class_weights: str | None = None


@dataclass(frozen=True)
class ClassifySettings(Settings):
    """`members`: how many models of this design vote; `smoothing` is the share of the chance that all classes have
    alike in what is learnt."""

    members: int = 1
    smoothing: float = 0.0
    data: Data = field(default_factory=Data)


SETTINGS = ClassifySettings
AMOUNTS = ("one", "many")


@dataclass(frozen=True)
class Corpus:
    """Texts of both parts, with their class numbers (n,) or memberships (n, classes)."""

    texts: list[str]
    labels: np.ndarray
    valid_texts: list[str]
    valid_labels: np.ndarray
    classes: list[str]
    info: dict[str, Any]
    separator: str | None = None
    weights: np.ndarray | None = None


def default(tree: Mapping[str, Any]) -> str:
    return "han"


def own(tree: Mapping[str, Any]) -> dict[str, Any]:
    return dict(tree)


def check(settings: ClassifySettings) -> None:
    if settings.data.labels not in AMOUNTS:
        raise UserError(
            f"data.labels says how many labels a document has, one or many, and was given {settings.data.labels!r}; "
            f"{nearest(settings.data.labels, AMOUNTS)}"
        )
    if settings.members < 1:
        raise UserError(f"members says how many models vote, 1 or more, and was given {settings.members}")
    if settings.members > 1 and not hasattr(settings.model, "build"):
        raise UserError(f"{settings.model_name} is fitted at once: its members would all say the same; leave them out")
    share("smoothing", settings.smoothing)
    if settings.smoothing and not hasattr(settings.model, "build"):
        raise UserError(f"{settings.model_name} is fitted to the labels as they are; leave smoothing out")


def check_config(config: Mapping[str, Any]) -> None:
    _ = config["labels"][0]


def read(settings: ClassifySettings, source: Table | None, say: Callable[[str], Any]) -> Corpus:
    """Read the data, and set a validation part aside where none is named."""
    data, many = settings.data, settings.data.labels == "many"
    table = source or read_table(data.train, text=data.text, label=data.label, many=many)
    for note in table.notes:
        say(note)
    cells = table.labels or []
    if not many and (hint := _several(cells)):
        say(hint)
    mark = (labels.separator(cells) if data.separator is None else data.separator) if many else None
    keys, classes = cells, require_classes(cells) if mark is None else []
    if mark is not None:
        sets = labels.parted(cells, mark)
        keys, classes = labels.rarest(sets), require_classes([name for row in sets for name in row])
        each = sum(map(len, sets)) / len(sets)
        say(f"{len(classes)} labels parted by {mark!r}, {each:.1f} for each document in the mean")
    truth = as_numbers(cells, classes, mark)
    if data.valid is not None:
        valid = read_table(data.valid, text=data.text, label=data.label, many=many)
        for note in valid.notes:
            say(f"validation: {note}")
        valid_truth = as_numbers(valid.labels or [], classes, mark, data.valid)
        texts, valid_texts = table.texts, valid.texts
        valid_info = _info(valid, data.valid, len(valid_texts))
    else:
        kept, aside = train_valid_split.split(keys, data.valid_fraction, settings.seed)
        texts, valid_texts = [table.texts[i] for i in kept], [table.texts[i] for i in aside]
        truth, valid_truth = truth[kept], truth[aside]
        valid_info = {"rows": len(valid_texts), "split": data.valid_fraction}
        say(f"{len(aside):,} of {len(table.texts):,} rows set aside for validation")
    repeated = train_valid_split.duplicates(texts, valid_texts)
    if repeated:
        say(f"warning: {repeated:,} of the {len(valid_texts):,} validation documents stand in the training part too")
    weights = labels.class_weights(data.class_weights, truth, classes)
    if weights is None and (note := labels.unbalanced(truth, classes)):
        say(note)
    info = {
        "train": _info(table, data.train or "given in Python", len(texts)),
        "valid": valid_info,
        "repeated": repeated,
    }
    return Corpus(texts, truth, valid_texts, valid_truth, classes, info, mark, weights)


def facts(found: Corpus) -> dict[str, Any]:
    count = labels.support(found.labels, len(found.classes)).tolist()
    known = {"labels": found.classes, "support": dict(zip(found.classes, count, strict=True))}
    return known if found.separator is None else {**known, "separator": found.separator}


def words(settings: ClassifySettings, found: Corpus) -> Tokenizer:
    """A tokenizer trained on the training part."""
    return tokenizer.train(found.texts, settings.tokenizer.kind, settings.tokenizer.vocab)


def net(settings: ClassifySettings, config: Mapping[str, Any]) -> nn.Module:
    build = partial(settings.model.build, config["vocab"], len(config["labels"]))
    return build() if settings.members == 1 else Committee([build() for _ in range(settings.members)])


def task(
    settings: ClassifySettings,
    found: Corpus,
    words: Tokenizer,
    folder: Path,
    say: Callable[[str], Any],
    progress: bool,
) -> tuple[Classify, str]:
    """Both parts tokenized, as a task for the loop."""
    most = settings.data.max_tokens
    train, valid = encoded(found.texts, words, settings), encoded(found.valid_texts, words, settings)
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
        weights=found.weights,
        smoothing=settings.smoothing,
    )
    return job, f"{len(train):,} documents ({len(train.ids):,} tokens), {len(found.classes)} classes"


def fit(settings: ClassifySettings, found: Corpus) -> tuple[Fitted, dict[str, float]]:
    """A bag of words, fitted at once."""
    bag = settings.model.fit(found.texts, found.labels, len(found.classes), settings.seed, found.weights)
    many = found.labels.ndim == 2
    return bag, measures(bag.probabilities(found.valid_texts, many), found.valid_labels)


def size(info: Mapping[str, Any]) -> str:
    return f"{info['rows']:,} rows"


def uses(config: Mapping[str, Any]) -> list[str]:
    look = ['regard look FOLDER "some text"'] if _attends(config) else []
    return ['regard predict FOLDER "some text"', "regard evaluate FOLDER FILE", *look]


def about(config: Mapping[str, Any]) -> str:
    labels = ", ".join(f"`{label}`" for label in config["labels"][:20])
    more = f" and {len(config['labels']) - 20} more" if len(config["labels"]) > 20 else ""
    return f"Classes: {labels}{more}."


def _attends(config: Mapping[str, Any]) -> bool:
    """Whether such a model has attention to look at: one of few words is built to see."""
    model: Any = settings_of(config).model
    if isinstance(model, Fits):
        return False
    with torch.random.fork_rng(devices=[]):
        return bool(attends(model.build(len(tokenizer.SPECIAL) + 1, len(config["labels"]))))


def _several(cells: list[str]) -> str | None:
    """A hint where cells look like several labels in one: marks in more than a tenth, and fewer labels than cells."""
    if 10 * sum(cell.startswith("[") and cell.endswith("]") for cell in cells) > len(cells):
        return "labels are lists: several a document? --multi-label"
    for mark in ("|", ";"):
        if 10 * sum(mark in cell for cell in cells) <= len(cells):
            continue
        if len({name for row in labels.parted(cells, mark) for name in row}) < len(set(cells)):
            return f"labels hold {mark!r}: several a document? --multi-label"
    return None


def _info(table: Table, name: str, used: int) -> dict[str, Any]:
    return {
        "name": Path(name).name,
        "fingerprint": table.fingerprint,
        "rows": used,
        "notes": table.notes,
        "columns": list(table.columns),
    }
