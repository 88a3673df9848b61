"""Read the data of `recall` and split it."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from regard.data.facts import Facts, Questions, read_facts, read_questions
from regard.errors import UserError
from regard.tasks.recall.run import FACTS_FILE, QuestionAnswerer
from regard.tasks.recall.settings import RecallSettings
from regard.training import atomic_write

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecallDataset:
    """The facts, and the questions of both parts."""

    facts: Facts
    train: Questions
    valid: Questions
    info: dict[str, Any]


def read_dataset(settings: RecallSettings, source: Any) -> RecallDataset:
    """Read facts and questions. Without validation questions, a fraction of the people is held out."""
    if source is not None:
        raise UserError("recall is trained on a file of facts and a table of questions; pass their names")
    data = settings.data
    facts = read_facts(data.train[0])
    questions = read_questions(data.train[1], facts)
    for note in (*facts.notes, *questions.notes):
        logger.info(note)
    if data.valid is not None:
        valid = read_questions(data.valid, sorted(set(questions.patterns)))
        for note in valid.notes:
            logger.info(f"validation: {note}")
        train = questions.subset(i for i, name in enumerate(questions.names) if name not in set(valid.names))
        if len(train) < len(questions):
            logger.info(f"skipped {len(questions) - len(train):,} questions about people of the validation part")
    else:
        train, valid = split_by_person(questions, data.valid_fraction, settings.seed)
        logger.info(f"{len(valid):,} of {len(questions):,} questions are held out for validation, by person")
    if data.reader is not None:
        train = add_reader_answers(train, valid, facts, data.reader)
    num_train_known = sum(name in facts.sentences_of for name in train.names)
    if not num_train_known:
        raise UserError(f"none of the {len(train):,} people in the questions is in {data.train[0]}")
    num_valid_known = sum(name in facts.sentences_of for name in valid.names)
    num_unknown = len(train) + len(valid) - num_train_known - num_valid_known
    if num_unknown:
        logger.info(f"{num_unknown:,} questions are about people who are not in the facts")
    info = {
        "train": {
            "name": " and ".join(Path(file).name for file in data.train),
            "fingerprint": f"{facts.fingerprint}{questions.fingerprint}",
            "rows": len(train),
            "facts": len(facts),
            "notes": [*facts.notes, *questions.notes],
        },
        "valid": {"rows": len(valid), "split": None if data.valid else data.valid_fraction},
    }
    return RecallDataset(facts, train, valid, info)


def split_by_person(questions: Questions, fraction: float, seed: int | str) -> tuple[Questions, Questions]:
    """Split questions at random; all questions about one person are in the same part. `fraction` is held out."""
    people = sorted(set(questions.names))
    if len(people) < 2:
        raise UserError("recall needs questions about at least two people, to hold one out for validation")
    Random(seed).shuffle(people)
    held_out = set(people[: int(np.clip(round(fraction * len(people)), 1, len(people) - 1))])
    train = questions.subset(i for i, name in enumerate(questions.names) if name not in held_out)
    return train, questions.subset(i for i, name in enumerate(questions.names) if name in held_out)


def add_reader_answers(train: Questions, valid: Questions, facts: Facts, reader: str) -> Questions:
    """Add the answers of an open-book run about all other people to the training questions.

    The run must not have been trained on the answers of the held-out people.
    """
    from regard.tasks.base_run import Run

    run = Run.load(reader)
    if not isinstance(run, QuestionAnswerer) or run.book != "open":
        raise UserError(f"data.reader must be a recall run with an open book, and {reader} is not")
    if leaked := set(run.train_names) & set(valid.names):
        raise UserError(
            f"{reader} was trained on the answers of {len(leaked):,} of the people that are held out here; train it "
            "with the same seed and data.valid_fraction"
        )
    num_shared = sum(name in run.facts.sentences_of for name in facts.sentences_of)
    if not num_shared:
        raise UserError(f"{reader} has no facts about these people; train it on the same file")
    if num_shared < len(facts.sentences_of):
        logger.warning(f"{reader} has facts about only {num_shared:,} of these {len(facts.sentences_of):,} people")
    train_pairs = set(zip(train.patterns, train.names, strict=True))
    pairs = [(p, n) for p in sorted(set(train.patterns)) for n in facts.sentences_of if (p, n) not in train_pairs]
    answers = run.extract_answers([p for p, _ in pairs], [n for _, n in pairs])
    rows = [(p, n, answer) for (p, n), answer in zip(pairs, answers, strict=True) if answer]
    logger.info(f"added {len(rows):,} answers of {reader} to the training questions")
    return Questions(
        [*train.patterns, *(p for p, _, _ in rows)],
        [*train.names, *(n for _, n, _ in rows)],
        [*train.answers, *(answer for _, _, answer in rows)],
    )


def store_facts(folder: Path, dataset: RecallDataset) -> None:
    """Store facts and held-out questions in the run folder, for the open book and for evaluation."""
    tree = {
        "names": dataset.facts.names,
        "sentences": dataset.facts.sentences,
        "train_names": sorted(set(dataset.train.names)),
        "valid": asdict(dataset.valid),
    }
    file = folder / FACTS_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write.replace_file(file, json.dumps(tree, ensure_ascii=False).encode())
