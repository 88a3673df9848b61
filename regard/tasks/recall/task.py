"""The task `recall`: answer questions about facts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from regard.config import specs
from regard.config.settings import LENGTH_SETTINGS, build_dataclass, merge_settings
from regard.data import tokenizer
from regard.data.facts import Facts, Questions, question_without_name
from regard.data.paraphrase import ParaphraseMix, Paraphraser
from regard.data.qa_passages import build_passage
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.tasks.base import Task
from regard.tasks.recall import closed_book
from regard.tasks.recall.compare import RecallComparison
from regard.tasks.recall.dataset import RecallDataset, keep, read_dataset
from regard.tasks.recall.extractive_qa import Pointing
from regard.tasks.recall.objective import Recall
from regard.tasks.recall.run import Recaller
from regard.tasks.recall.settings import RecallSettings
from regard.training import environment
from regard.training.objective import Objective

logger = logging.getLogger(__name__)

BOOKS = {"closed": ("ngram-gpt", "gpt"), "open": ("pointer",)}


WORDS = {"closed": ("bpe", 6000), "open": ("words", 2000)}


UNSAID: dict[str, dict[str, Any]] = {
    "closed": {
        "model": {"dim": 128, "layers": 3},
        "data": {"batch_tokens": 3072},
        "train": {"optimizer": "muon", "lr": 0.005, "weight_decay": 0.05, "warmup": 0.02, "decay": "linear"},
    },
    "open": {"data": {"batch_tokens": 2048}, "train": {"lr": 0.002, "ema_decay": 0.995}},
}
"""What is taken where nothing is said: the settings of recipes/birthplace-*.yaml."""


EPOCHS = 12


FEW = 50
"""People set aside below which confidences are hardly fitted."""


class RecallTask(Task[RecallSettings, RecallDataset]):
    name = "recall"
    settings_class = RecallSettings
    run_class = Recaller
    models: ClassVar[Mapping[str, str]] = {
        "ngram-gpt": "regard.models.ngram_gpt:NGramGPTConfig",
        "gpt": "regard.models.gpt:GPTConfig",
        "pointer": "regard.models.span_reader:SpanReaderConfig",
    }

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return BOOKS[specs.find_choice("book", str(tree.get("book", "closed")), {name: name for name in BOOKS})][0]

    def check_settings(self, settings: RecallSettings) -> None:
        data, mix = settings.data, settings.mix
        if settings.model_name not in BOOKS[settings.book]:
            able = " or ".join(BOOKS[settings.book])
            raise UserError(f"--book {settings.book} wants --model {able}, and was given {settings.model_name!r}")
        if not 0 < data.valid_fraction < 1:
            raise UserError(f"data.valid_fraction lies between 0 and 1, and was given {data.valid_fraction}")
        if not 0 <= data.drop < 0.5:
            raise UserError(f"data.drop is a share from 0 to below 0.5, and was given {data.drop}")
        for name in ("sentences", "phrases", "clozes", "questions", "unknown_names", "max_words_after"):
            if getattr(mix, name) < 0:
                raise UserError(f"mix.{name} must be 0 or more, and was given {getattr(mix, name)}")
        for name in ("max_phrase_words", "max_words_before"):
            if getattr(mix, name) < 1:
                raise UserError(f"mix.{name} must be 1 or more, and was given {getattr(mix, name)}")
        if settings.data.train and len(settings.data.train) != 2:
            raise UserError(
                f"recall wants a file of facts and a table of questions (--facts FILE --questions FILE), and was given "
                f"{', '.join(settings.data.train)} alone"
            )

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["patterns"], config["settings"]["book"]

    def config_entries(self, found: RecallDataset) -> dict[str, Any]:
        return {"patterns": [list(pattern) for pattern in sorted(set(found.train.patterns))]}

    def build_tokenizer(self, settings: RecallSettings, found: RecallDataset) -> Tokenizer:
        """Learnt from the facts and from what may be asked; of the answers only from those that training sees."""
        kind, vocab = WORDS[settings.book]
        kind, vocab = settings.tokenizer.kind or kind, settings.tokenizer.vocab_size or vocab
        asked = sorted({question_without_name(pattern) for pattern in found.train.patterns})
        if settings.book == "open":
            return tokenizer.train_tokenizer([*found.book.sentences, *asked], kind, vocab)
        told = [f" {name}. {text}" for name, text in zip(found.book.names, found.book.sentences, strict=True)]
        return tokenizer.train_tokenizer([*told, *(f" {a}" for a in [*asked, *found.train.answers])], kind, vocab)

    def build_model(self, settings: RecallSettings, config: Mapping[str, Any]) -> nn.Module:
        return settings.model.build(config["vocab_size"])

    def build_objective(
        self,
        settings: RecallSettings,
        found: RecallDataset,
        words: Tokenizer,
        folder: Path,
        progress: bool,
    ) -> tuple[Objective, str]:
        """What is learnt from the facts and the questions; what was read goes into the run folder."""
        if environment.get_rank() == 0:
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
                said = closed_book.say(model, words, asked.patterns, asked.names, settings.mix.prompt_format)
                return {"exact": float(np.mean([a == b for a, b in zip(said, asked.answers, strict=True)]))}

            job = Recall(items, scored, **shape)
            first = items.generate_epoch(0)
            tokens = sum(len(item.ids) for item in first)
            said = f"{len(book):,} facts and {len(found.train):,} questions, {len(first):,} items ({tokens:,} tokens) an epoch"
        return job, f"{said}, vocabulary {words.vocab_size:,} ({words.kind})"

    def format_size(self, info: Mapping[str, Any]) -> str:
        told = f"{info['facts']:,} facts and " if "facts" in info else ""
        return f"{told}{info['rows']:,} questions"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        before, behind = config["patterns"][0]
        return [
            f'regard ask FOLDER "{" ".join(p for p in (before, "NAME", behind) if p)}"',
            "regard evaluate FOLDER FILE",
        ]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        book = config["settings"]["book"]
        from_where = (
            "its weights alone" if book == "closed" else "the sentence about the person, which it finds by name"
        )
        return f"It answers from {from_where}. Vocabulary: {config['vocab_size']:,}."

    def complete_settings(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        book = specs.find_choice("book", str(tree.get("book", "closed")), {name: name for name in BOOKS})
        tree = merge_settings(UNSAID[book], tree)
        length, model, data, given = tree.get("train"), tree.get("model"), tree.get("data"), tree.get("mix") or {}
        if isinstance(length, Mapping) and all(length.get(name) is None for name in LENGTH_SETTINGS):
            tree["train"] = {**length, "epochs": EPOCHS}
        if isinstance(model, Mapping) and book == "closed" and model.get("name", "ngram-gpt") == "ngram-gpt":
            tree["model"] = {"ngrams": 4, **model}
        if isinstance(data, Mapping) and data.get("reader"):  # a run is resumed from anywhere
            tree = {**tree, "data": {**data, "reader": str(Path(str(data["reader"])).absolute())}}
        if isinstance(given, ParaphraseMix):
            return dict(tree)
        if not isinstance(given, Mapping):
            raise UserError(f"mix wants a mapping, such as mix.clozes=4, and was given {given!r}")
        return {**tree, "mix": build_dataclass(ParaphraseMix, given, where="mix")}

    def after_training(self, run: Recaller) -> None:
        """Once trained: how far can the answers be believed?"""
        run.calibrate()
        hits, level = run.calibration.hits, run.level(None)
        given = [hit for hit, sure in zip(hits, run.calibration.confidences, strict=True) if sure >= level]
        said = f"it answers for {len(given):,} of the {len(hits):,} people set aside"
        logger.info(f"{said}, rightly for {sum(given):,}" if given else f"{said}: it is never rather right than wrong")
        if len(hits) < FEW:
            logger.info(
                f"{len(hits)} people are few to learn from how far to believe it: take confidences for rough ones"
            )

    def read_dataset(self, settings: RecallSettings, source: Any) -> RecallDataset:
        return read_dataset(settings, source)

    def build_comparison(self) -> RecallComparison:
        return RecallComparison()


def _pages(book: Facts, asked: Questions, words: Tokenizer) -> list[tuple[Any, str]]:
    """A question beside each sentence about its person, with the answer."""
    rows = zip(asked.patterns, asked.names, asked.answers, strict=True)
    return [
        (build_passage(p, n, book.sentences[s], words, a), a)
        for p, n, a in rows
        for s in book.sentences_of.get(n, [])[:1]
    ]
