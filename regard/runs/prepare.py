"""From the user's file to what training needs: rows read, split, tokenized; what was found out on the way in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import documents, split, tokenizer
from regard.data.read import Table, read, require_classes
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.settings import Settings
from regard.tasks.classify import Classify


@dataclass(frozen=True)
class Corpus:
    """Texts and class numbers of both parts."""

    texts: list[str]
    labels: np.ndarray
    valid_texts: list[str]
    valid_labels: np.ndarray
    classes: list[str]
    info: dict[str, Any]


def corpus(settings: Settings, source: Table | None, say: Callable[[str], Any]) -> Corpus:
    """Read the data, and set a validation part aside where none is named."""
    data = settings.data
    table = source or read(data.train, text=data.text, label=data.label)
    for note in table.notes:
        say(note)
    classes = require_classes(table.labels)
    labels = numbers(table.labels or [], classes)
    if data.valid is not None:
        valid = read(data.valid, text=data.text, label=data.label)
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


def numbers(labels: list[str], classes: list[str], where: str = "") -> np.ndarray:
    """Labels as class numbers; one that was never seen in training is an error."""
    known = {name: i for i, name in enumerate(classes)}
    strange = sorted({label for label in labels if label not in known})
    if strange:
        shown = ", ".join(map(repr, strange[:5]))
        raise UserError(
            f"{where or 'the data'} has labels that training never saw: {shown}; known are "
            f"{', '.join(map(repr, classes[:10]))}. Mend the labels or train on data that has them"
        )
    return np.array([known[label] for label in labels], np.int64)


def task(settings: Settings, found: Corpus, vocabulary: Tokenizer, say: Callable[[str], Any]) -> Classify:
    """Both parts tokenized, as a task for the loop."""
    most = settings.data.max_tokens
    train = documents.encode(found.texts, vocabulary, max_tokens=most)
    valid = documents.encode(found.valid_texts, vocabulary, max_tokens=most)
    if train.cut:
        say(f"{train.cut:,} documents were longer than {most} tokens and are cut there (--set data.max_tokens=N)")
    return Classify(
        train,
        found.labels,
        valid,
        found.valid_labels,
        classes=len(found.classes),
        batch_tokens=settings.data.batch_tokens,
        seed=settings.seed,
    )


def vocabulary(settings: Settings, found: Corpus) -> Tokenizer:
    """A tokenizer trained on the training part."""
    return tokenizer.train(found.texts, settings.tokenizer.kind, settings.tokenizer.vocab)


def _info(table: Table, name: str, used: int) -> dict[str, Any]:
    return {
        "name": Path(name).name,
        "fingerprint": table.fingerprint,
        "rows": used,
        "notes": table.notes,
        "columns": list(table.columns),
    }


def absolute(settings: Settings) -> Settings:
    """Paths made absolute, so that a run can be resumed from anywhere."""
    data = settings.data
    fixed = {k: str(Path(v).absolute()) for k in ("train", "valid") if (v := getattr(data, k))}
    return dataclasses.replace(settings, data=dataclasses.replace(data, **fixed))
