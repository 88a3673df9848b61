"""Runs of `recall`: from a file of facts and a table of questions to a model that answers, from its weights alone
(`book: closed`) or by pointing into the sentence about the person (`book: open`)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from torch import nn

from regard.config import specs
from regard.config.settings import LENGTHS, DataSettings, Settings, TokenizerSettings, build, merge
from regard.data import facts as f
from regard.data import tokenizer
from regard.data.facts import Facts, Questions, question_without_name
from regard.data.paraphrase import ParaphraseMix, Paraphraser
from regard.data.qa_pages import build_passage
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.linear_text_model import FittedModel
from regard.tasks.recall import closed_book
from regard.tasks.recall.extractive_qa import Pointing
from regard.tasks.recall.objective import Recall
from regard.tasks.recall.run import BOOK, Recaller
from regard.training import atomic_write, environment
from regard.training.objective import Objective

logger = logging.getLogger(__name__)

RUN = Recaller
MODELS = {
    "ngram-gpt": "regard.models.ngram_gpt:NGramGPTConfig",
    "gpt": "regard.models.gpt:GPTConfig",
    "pointer": "regard.models.span_reader:SpanReaderConfig",
}
BOOKS = {"closed": ("ngram-gpt", "gpt"), "open": ("pointer",)}
WORDS = {"closed": ("bpe", 6000), "open": ("words", 2000)}
UNSAID: dict[str, dict[str, Any]] = {
    "closed": {
        "model": {"dim": 128, "layers": 3},
        "data": {"batch_tokens": 3072},
        "train": {"optimizer": "muon", "lr": 0.005, "weight_decay": 0.05, "warmup": 0.02, "decay": "linear"},
    },
    "open": {"data": {"batch_tokens": 2048}, "train": {"lr": 0.002, "average": 0.995}},
}
"""What is taken where nothing is said: the settings of recipes/birthplace-*.yaml."""
EPOCHS = 12
FEW = 50
"""People set aside below which confidences are hardly fitted."""


@dataclass(frozen=True)
class Data(DataSettings):
    """`train` is the file of facts and the table of questions; of the people asked about, `valid_fraction` are set
    aside, whose answers are never seen: for validation, and to know how far answers can be believed. `drop` is the
    share of words that are hidden from the reader of an open book. `reader` is an open-book run: what it reads of all
    others is then learnt too, as if it had been asked."""

    train: tuple[str, ...] = ()
    valid: str | None = None
    valid_fraction: float = 0.2
    drop: float = 0.2
    reader: str | None = None


@dataclass(frozen=True)
class WordSettings(TokenizerSettings):
    """Parts of words for a closed book, frequent words for an open one, where it is not said."""

    kind: str | None = None  # type: ignore[assignment]
    vocab: int | None = None  # type: ignore[assignment]


@dataclass(frozen=True)
class RecallSettings(Settings):
    """`mix` says how often each way of saying a fact comes in an epoch (a closed book's)."""

    book: str = "closed"
    mix: ParaphraseMix = field(default_factory=ParaphraseMix)
    data: Data = field(default_factory=Data)
    tokenizer: WordSettings = field(default_factory=WordSettings)


SETTINGS = RecallSettings


@dataclass(frozen=True)
class Found:
    """The facts, and the questions of both parts."""

    book: Facts
    train: Questions
    valid: Questions
    info: dict[str, Any]


def default(tree: Mapping[str, Any]) -> str:
    return BOOKS[specs.find("book", str(tree.get("book", "closed")), {name: name for name in BOOKS})][0]


def own(tree: Mapping[str, Any]) -> dict[str, Any]:
    book = specs.find("book", str(tree.get("book", "closed")), {name: name for name in BOOKS})
    tree = merge(UNSAID[book], tree)
    length, model, data, given = tree.get("train"), tree.get("model"), tree.get("data"), tree.get("mix") or {}
    if isinstance(length, Mapping) and all(length.get(name) is None for name in LENGTHS):
        tree["train"] = {**length, "epochs": EPOCHS}
    if isinstance(model, Mapping) and book == "closed" and model.get("name", "ngram-gpt") == "ngram-gpt":
        tree["model"] = {"ngrams": 4, **model}
    if isinstance(data, Mapping) and data.get("reader"):  # a run is resumed from anywhere
        tree = {**tree, "data": {**data, "reader": str(Path(str(data["reader"])).absolute())}}
    if isinstance(given, ParaphraseMix):
        return dict(tree)
    if not isinstance(given, Mapping):
        raise UserError(f"mix wants a mapping, such as mix.clozes=4, and was given {given!r}")
    return {**tree, "mix": build(ParaphraseMix, given, where="mix")}


def check(settings: RecallSettings) -> None:
    data, mix = settings.data, settings.mix
    if settings.model_name not in BOOKS[settings.book]:
        able = " or ".join(BOOKS[settings.book])
        raise UserError(f"--book {settings.book} wants --model {able}, and was given {settings.model_name!r}")
    if not 0 < data.valid_fraction < 1:
        raise UserError(f"data.valid_fraction lies between 0 and 1, and was given {data.valid_fraction}")
    if not 0 <= data.drop < 0.5:
        raise UserError(f"data.drop is a share from 0 to below 0.5, and was given {data.drop}")
    for name in ("sentences", "phrases", "clozes", "questions", "strangers", "after"):
        if getattr(mix, name) < 0:
            raise UserError(f"mix.{name} must be 0 or more, and was given {getattr(mix, name)}")
    for name in ("most", "before"):
        if getattr(mix, name) < 1:
            raise UserError(f"mix.{name} must be 1 or more, and was given {getattr(mix, name)}")
    if settings.data.train and len(settings.data.train) != 2:
        raise UserError(
            f"recall wants a file of facts and a table of questions (--facts FILE --questions FILE), and was given "
            f"{', '.join(settings.data.train)} alone"
        )
    fields = type(settings.model).__dataclass_fields__
    if "vocab" in fields and settings.model.vocab != fields["vocab"].default:
        raise UserError("the model's vocabulary is its tokenizer's: say --vocab N, and not model.vocab")


def check_config(config: Mapping[str, Any]) -> None:
    _ = config["patterns"], config["settings"]["book"]


def read(settings: RecallSettings, source: Any) -> Found:
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
    known = sum(name in book.people for name in train.names)
    if not known:
        raise UserError(f"none of the {len(train):,} people asked about stands in {data.train[0]}")
    strange = len(train) + len(valid) - known - sum(name in book.people for name in valid.names)
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
    return Found(book, train, valid, info)


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
    shared = sum(name in opened.read.people for name in book.people)
    if not shared:
        raise UserError(f"{reader} has read of nobody in these facts; train it on the same file")
    if shared < len(book.people):
        logger.warning(f"{reader} has read of {shared:,} of the {len(book.people):,} people in these facts alone")
    asked = {(p, n) for p, n in zip(train.patterns, train.names, strict=True)}
    rows = [(p, n) for p in sorted(set(train.patterns)) for n in book.people if (p, n) not in asked]
    read = opened.read_all([p for p, _ in rows], [n for _, n in rows])
    kept = [(p, n, text) for (p, n), text in zip(rows, read, strict=True) if text]
    logger.info(f"{len(kept):,} people besides are labelled by what {reader} reads of them")
    return Questions(
        [*train.patterns, *(p for p, _, _ in kept)],
        [*train.names, *(n for _, n, _ in kept)],
        [*train.answers, *(text for _, _, text in kept)],
    )


def facts(found: Found) -> dict[str, Any]:
    return {"patterns": [list(pattern) for pattern in sorted(set(found.train.patterns))]}


def words(settings: RecallSettings, found: Found) -> Tokenizer:
    """Learnt from the facts and from what may be asked; of the answers only from those that training sees."""
    kind, vocab = WORDS[settings.book]
    kind, vocab = settings.tokenizer.kind or kind, settings.tokenizer.vocab or vocab
    asked = sorted({question_without_name(pattern) for pattern in found.train.patterns})
    if settings.book == "open":
        return tokenizer.train_tokenizer([*found.book.sentences, *asked], kind, vocab)
    told = [f" {name}. {text}" for name, text in zip(found.book.names, found.book.sentences, strict=True)]
    return tokenizer.train_tokenizer([*told, *(f" {a}" for a in [*asked, *found.train.answers])], kind, vocab)


def net(settings: RecallSettings, config: Mapping[str, Any]) -> nn.Module:
    return settings.model.build(config["vocab"])


def task(
    settings: RecallSettings,
    found: Found,
    words: Tokenizer,
    folder: Path,
    progress: bool,
) -> tuple[Objective, str]:
    """What is learnt from the facts and the questions; what was read goes into the run folder."""
    if environment.rank() == 0:
        keep(folder, found)
    data, book = settings.data, found.book
    shape = {"batch_tokens": data.batch_tokens, "seed": settings.seed}
    if settings.book == "open":
        train, valid = (_pages(book, part, words) for part in (found.train, found.valid))
        job: Objective = Pointing(
            [p for p, _ in train], [p for p, _ in valid], [a for _, a in valid], drop=data.drop, **shape
        )
        said = f"{len(train):,} questions with their sentences, {len(valid):,} for validation"
    else:
        items = Paraphraser(book, found.train, words, settings.mix, settings.seed)
        asked = found.valid

        def scored(model: nn.Module) -> dict[str, float]:
            said = closed_book.say(model, words, asked.patterns, asked.names, settings.mix.form)
            return {"exact": float(np.mean([a == b for a, b in zip(said, asked.answers, strict=True)]))}

        job = Recall(items, scored, **shape)
        first = items.epoch(0)
        tokens = sum(len(item.ids) for item in first)
        said = (
            f"{len(book):,} facts and {len(found.train):,} questions, {len(first):,} items ({tokens:,} tokens) an epoch"
        )
    return job, f"{said}, vocabulary {words.vocab_size:,} ({words.kind})"


def _pages(book: Facts, asked: Questions, words: Tokenizer) -> list[tuple[Any, str]]:
    """A question beside each sentence about its person, with the answer."""
    rows = zip(asked.patterns, asked.names, asked.answers, strict=True)
    return [
        (build_passage(p, n, book.sentences[s], words, a), a) for p, n, a in rows for s in book.people.get(n, [])[:1]
    ]


def keep(folder: Path, found: Found) -> None:
    """What was read, for an open book to look into, and to say whether an answer stands there; and who is set aside."""
    book, valid = found.book, asdict(found.valid)
    tree = {"names": book.names, "sentences": book.sentences, "asked": sorted(set(found.train.names)), "valid": valid}
    file = folder / BOOK
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write.replace(file, json.dumps(tree, ensure_ascii=False).encode())


def after(run: Recaller) -> None:
    """Once trained: how far can the answers be believed?"""
    run.calibrate()
    hits, level = run.calibration.hits, run.level(None)
    given = [hit for hit, sure in zip(hits, run.calibration.confidences, strict=True) if sure >= level]
    said = f"it answers for {len(given):,} of the {len(hits):,} people set aside"
    logger.info(f"{said}, rightly for {sum(given):,}" if given else f"{said}: it is never rather right than wrong")
    if len(hits) < FEW:
        logger.info(f"{len(hits)} people are few to learn from how far to believe it: take confidences for rough ones")


def fit(settings: RecallSettings, found: Found) -> tuple[FittedModel, dict[str, float]]:
    raise NotImplementedError("every model of recall is trained in steps")


def size(info: Mapping[str, Any]) -> str:
    told = f"{info['facts']:,} facts and " if "facts" in info else ""
    return f"{told}{info['rows']:,} questions"


def uses(config: Mapping[str, Any]) -> list[str]:
    before, behind = config["patterns"][0]
    return [f'regard ask FOLDER "{" ".join(p for p in (before, "NAME", behind) if p)}"', "regard evaluate FOLDER FILE"]


def about(config: Mapping[str, Any]) -> str:
    book = config["settings"]["book"]
    from_where = "its weights alone" if book == "closed" else "the sentence about the person, which it finds by name"
    return f"It answers from {from_where}. Vocabulary: {config['vocab']:,}."
