"""Read the data of `recall` and split it."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from regard.data import facts as f
from regard.data.facts import Facts, Questions
from regard.errors import UserError
from regard.tasks.recall.run import BOOK, Recaller
from regard.tasks.recall.settings import RecallSettings
from regard.training import atomic_write

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecallDataset:
    """The facts, and the questions of both parts."""

    book: Facts
    train: Questions
    valid: Questions
    info: dict[str, Any]


def read_dataset(settings: RecallSettings, source: Any) -> RecallDataset:
    """Read facts and questions, and set people aside where no questions for validation are named."""
    if source is not None:
        raise UserError("recall is trained on a file of facts and a table of questions; give their names")
    data = settings.data
    book = f.read_facts(data.train[0])
    asked = f.read_questions(data.train[1], book)
    for note in (*book.notes, *asked.notes):
        logger.info(note)
    if data.valid is not None:
        valid, train = f.read_questions(data.valid, sorted(set(asked.patterns))), asked
        for note in valid.notes:
            logger.info(f"validation: {note}")
        train = train.subset(i for i, name in enumerate(asked.names) if name not in set(valid.names))
        if len(train) < len(asked):
            logger.info(f"{len(asked) - len(train):,} questions are about people of the validation part and left out")
    else:
        train, valid = parted(asked, data.valid_fraction, settings.seed)
        logger.info(f"{len(valid):,} of {len(asked):,} questions set aside for validation, by person")
    if data.reader is not None:
        train = labelled(train, valid, book, data.reader)
    known = sum(name in book.sentences_of for name in train.names)
    if not known:
        raise UserError(f"none of the {len(train):,} people asked about stands in {data.train[0]}")
    strange = len(train) + len(valid) - known - sum(name in book.sentences_of for name in valid.names)
    if strange:
        logger.info(f"{strange:,} questions are about people whom the facts do not name")
    names = " and ".join(Path(file).name for file in data.train)
    info = {
        "train": {
            "name": names,
            "fingerprint": f"{book.fingerprint}{asked.fingerprint}",
            "rows": len(train),
            "facts": len(book),
            "notes": [*book.notes, *asked.notes],
        },
        "valid": {"rows": len(valid), "split": None if data.valid else data.valid_fraction},
    }
    return RecallDataset(book, train, valid, info)


def parted(asked: Questions, fraction: float, seed: int) -> tuple[Questions, Questions]:
    """By chance, all questions about one person on the same side."""
    people = sorted(set(asked.names))
    if len(people) < 2:
        raise UserError("questions about two people or more are wanted, to set one aside for validation")
    Random(seed).shuffle(people)
    aside = set(people[: int(np.clip(round(fraction * len(people)), 1, len(people) - 1))])
    train = asked.subset(i for i, name in enumerate(asked.names) if name not in aside)
    return train, asked.subset(i for i, name in enumerate(asked.names) if name in aside)


def labelled(train: Questions, valid: Questions, book: Facts, reader: str) -> Questions:
    """The questions, and with them what an open-book run reads of everybody else. It must not have seen the answers of
    the people set aside."""
    from regard.tasks.base_run import Run

    opened = Run.load(reader)
    if not isinstance(opened, Recaller) or opened.book != "open":
        raise UserError(f"data.reader wants a run of recall with an open book, and {reader} is none")
    if seen := set(opened.asked) & set(valid.names):
        raise UserError(
            f"{reader} was taught the answers of {len(seen):,} of the people set aside here; train it with the same "
            "seed and data.valid_fraction"
        )
    shared = sum(name in opened.read.sentences_of for name in book.sentences_of)
    if not shared:
        raise UserError(f"{reader} has read of nobody in these facts; train it on the same file")
    if shared < len(book.sentences_of):
        logger.warning(f"{reader} has read of {shared:,} of the {len(book.sentences_of):,} people in these facts alone")
    asked = {(p, n) for p, n in zip(train.patterns, train.names, strict=True)}
    rows = [(p, n) for p in sorted(set(train.patterns)) for n in book.sentences_of if (p, n) not in asked]
    read = opened.read_all([p for p, _ in rows], [n for _, n in rows])
    kept = [(p, n, text) for (p, n), text in zip(rows, read, strict=True) if text]
    logger.info(f"{len(kept):,} people besides are labelled by what {reader} reads of them")
    return Questions(
        [*train.patterns, *(p for p, _, _ in kept)],
        [*train.names, *(n for _, n, _ in kept)],
        [*train.answers, *(text for _, _, text in kept)],
    )


def keep(folder: Path, found: RecallDataset) -> None:
    """What was read_dataset, for an open book to look into, and to say whether an answer stands there; and who is set aside."""
    book, valid = found.book, asdict(found.valid)
    tree = {"names": book.names, "sentences": book.sentences, "asked": sorted(set(found.train.names)), "valid": valid}
    file = folder / BOOK
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write.replace_file(file, json.dumps(tree, ensure_ascii=False).encode())
