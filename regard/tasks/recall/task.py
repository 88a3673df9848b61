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
from regard.data.facts import Facts, Questions, question_without_name
from regard.data.paraphrase import ParaphraseMix, Paraphraser
from regard.data.qa_passages import Passage, build_passage
from regard.data.tokenizer import Tokenizer, train_tokenizer
from regard.errors import UserError
from regard.tasks.base import Task
from regard.tasks.recall import closed_book
from regard.tasks.recall.compare import RecallComparison
from regard.tasks.recall.dataset import RecallDataset, read_dataset, store_facts
from regard.tasks.recall.extractive_qa import ExtractiveQAObjective
from regard.tasks.recall.objective import RecallObjective
from regard.tasks.recall.run import QuestionAnswerer
from regard.tasks.recall.settings import RecallSettings
from regard.training import environment
from regard.training.objective import Objective

logger = logging.getLogger(__name__)

BOOK_MODELS = {"closed": ("ngram-gpt", "gpt"), "open": ("pointer",)}
DEFAULT_TOKENIZERS = {"closed": ("bpe", 6000), "open": ("words", 2000)}
DEFAULT_SETTINGS: dict[str, dict[str, Any]] = {
    "closed": {
        "model": {"dim": 128, "layers": 3},
        "data": {"batch_tokens": 3072},
        "train": {"optimizer": "muon", "lr": 0.005, "weight_decay": 0.05, "warmup": 0.02, "decay": "linear"},
    },
    "open": {"data": {"batch_tokens": 2048}, "train": {"lr": 0.002, "ema_decay": 0.995}},
}
"""Defaults of each book: the settings of recipes/birthplace-*.yaml."""
DEFAULT_EPOCHS = 12
MIN_CALIBRATION_PEOPLE = 50
"""With fewer held-out people, confidences are unreliable."""


class RecallTask(Task[RecallSettings, RecallDataset]):
    name = "recall"
    settings_class = RecallSettings
    run_class = QuestionAnswerer
    models: ClassVar[Mapping[str, str]] = {
        "ngram-gpt": "regard.models.ngram_gpt:NGramGPTConfig",
        "gpt": "regard.models.gpt:GPTConfig",
        "pointer": "regard.models.span_reader:SpanReaderConfig",
    }

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return BOOK_MODELS[_find_book(tree)][0]

    def check_settings(self, settings: RecallSettings) -> None:
        data, mix = settings.data, settings.mix
        if settings.model_name not in BOOK_MODELS[settings.book]:
            models = " or ".join(BOOK_MODELS[settings.book])
            raise UserError(f"--book {settings.book} needs --model {models}, got {settings.model_name!r}")
        if not 0 < data.valid_fraction < 1:
            raise UserError(f"data.valid_fraction must be between 0 and 1, got {data.valid_fraction}")
        if not 0 <= data.drop < 0.5:
            raise UserError(f"data.drop must be at least 0 and less than 0.5, got {data.drop}")
        for name in ("sentences", "phrases", "clozes", "questions", "unknown_names", "max_words_after"):
            if getattr(mix, name) < 0:
                raise UserError(f"mix.{name} must be at least 0, got {getattr(mix, name)}")
        for name in ("max_phrase_words", "max_words_before"):
            if getattr(mix, name) < 1:
                raise UserError(f"mix.{name} must be at least 1, got {getattr(mix, name)}")
        if data.train and len(data.train) != 2:
            raise UserError(f"recall needs a file of facts and a table of questions, got only {', '.join(data.train)}")

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["patterns"], config["settings"]["book"]

    def config_entries(self, dataset: RecallDataset) -> dict[str, Any]:
        return {"patterns": [list(pattern) for pattern in sorted(set(dataset.train.patterns))]}

    def build_tokenizer(self, settings: RecallSettings, dataset: RecallDataset) -> Tokenizer:
        """Train a tokenizer on the facts, the question patterns and (closed book) the training answers."""
        kind, vocab_size = DEFAULT_TOKENIZERS[settings.book]
        kind, vocab_size = settings.tokenizer.kind or kind, settings.tokenizer.vocab_size or vocab_size
        facts = dataset.facts
        questions = sorted({question_without_name(pattern) for pattern in dataset.train.patterns})
        if settings.book == "open":
            return train_tokenizer([*facts.sentences, *questions], kind, vocab_size)
        texts = [f" {name}. {sentence}" for name, sentence in zip(facts.names, facts.sentences, strict=True)]
        texts += [f" {text}" for text in [*questions, *dataset.train.answers]]
        return train_tokenizer(texts, kind, vocab_size)

    def build_model(self, settings: RecallSettings, config: Mapping[str, Any]) -> nn.Module:
        return settings.model.build(config["vocab_size"])

    def build_objective(
        self,
        settings: RecallSettings,
        dataset: RecallDataset,
        tokenizer: Tokenizer,
        folder: Path,
        progress: bool,
    ) -> tuple[Objective, str]:
        if environment.get_rank() == 0:
            store_facts(folder, dataset)
        data, facts = settings.data, dataset.facts
        options = {"batch_tokens": data.batch_tokens, "seed": settings.seed}
        if settings.book == "open":
            train, valid = (_build_passages(facts, part, tokenizer) for part in (dataset.train, dataset.valid))
            objective: Objective = ExtractiveQAObjective(
                [passage for passage, _ in train],
                [passage for passage, _ in valid],
                [answer for _, answer in valid],
                drop=data.drop,
                **options,
            )
            size = f"{len(train):,} questions with their sentences, {len(valid):,} for validation"
        else:
            paraphraser = Paraphraser(facts, dataset.train, tokenizer, settings.mix, settings.seed)
            questions = dataset.valid

            def evaluate(model: nn.Module) -> dict[str, float]:
                answers = closed_book.generate_answers(
                    model, tokenizer, questions.patterns, questions.names, settings.mix.prompt_format
                )
                return {"exact": float(np.mean([a == b for a, b in zip(answers, questions.answers, strict=True)]))}

            objective = RecallObjective(paraphraser, evaluate, **options)
            examples = paraphraser.generate_epoch(0)
            num_tokens = sum(len(example.ids) for example in examples)
            size = (
                f"{len(facts):,} facts and {len(dataset.train):,} questions, {len(examples):,} examples "
                f"({num_tokens:,} tokens) per epoch"
            )
        return objective, f"{size}, vocabulary {tokenizer.vocab_size:,} ({tokenizer.kind})"

    def format_size(self, info: Mapping[str, Any]) -> str:
        facts = f"{info['facts']:,} facts and " if "facts" in info else ""
        return f"{facts}{info['rows']:,} questions"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        before, after = config["patterns"][0]
        return [
            f'regard ask FOLDER "{" ".join(part for part in (before, "NAME", after) if part)}"',
            "regard evaluate FOLDER FILE",
        ]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        is_closed = config["settings"]["book"] == "closed"
        source = "its weights alone" if is_closed else "the sentence about the person, which it finds by name"
        return f"It answers from {source}. Vocabulary: {config['vocab_size']:,}."

    def complete_settings(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        book = _find_book(tree)
        tree = merge_settings(DEFAULT_SETTINGS[book], tree)
        train, model, data, mix = tree.get("train"), tree.get("model"), tree.get("data"), tree.get("mix") or {}
        if isinstance(train, Mapping) and all(train.get(name) is None for name in LENGTH_SETTINGS):
            tree["train"] = {**train, "epochs": DEFAULT_EPOCHS}
        if isinstance(model, Mapping) and book == "closed" and model.get("name", "ngram-gpt") == "ngram-gpt":
            tree["model"] = {"ngrams": 4, **model}
        if isinstance(data, Mapping) and data.get("reader"):  # a run can be resumed from another folder
            tree = {**tree, "data": {**data, "reader": str(Path(str(data["reader"])).absolute())}}
        if isinstance(mix, ParaphraseMix):
            return dict(tree)
        if not isinstance(mix, Mapping):
            raise UserError(f"mix must be a mapping, such as mix.clozes=4, got {mix!r}")
        return {**tree, "mix": build_dataclass(ParaphraseMix, mix, where="mix")}

    def after_training(self, run: QuestionAnswerer) -> None:
        """Calibrate the confidence, and log how many of the held-out people are answered."""
        run.calibrate()
        hits, threshold = run.calibration.hits, run.answer_threshold(None)
        confidences = run.calibration.confidences
        answered = [hit for hit, confidence in zip(hits, confidences, strict=True) if confidence >= threshold]
        correct = f", {sum(answered):,} of them correctly" if answered else ": its confidence is never above 0.5"
        logger.info(f"it answers for {len(answered):,} of the {len(hits):,} held-out people{correct}")
        if len(hits) < MIN_CALIBRATION_PEOPLE:
            logger.info(f"only {len(hits)} people are held out for calibration: confidences are rough estimates")

    def read_dataset(self, settings: RecallSettings, source: Any) -> RecallDataset:
        return read_dataset(settings, source)

    def build_comparison(self) -> RecallComparison:
        return RecallComparison()


def _find_book(tree: Mapping[str, Any]) -> str:
    return specs.find_choice("book", str(tree.get("book", "closed")), {name: name for name in BOOK_MODELS})


def _build_passages(facts: Facts, questions: Questions, tokenizer: Tokenizer) -> list[tuple[Passage, str]]:
    """Return each question with the first sentence about its person, and the answer."""
    rows = zip(questions.patterns, questions.names, questions.answers, strict=True)
    return [
        (build_passage(pattern, name, facts.sentences[s], tokenizer, answer), answer)
        for pattern, name, answer in rows
        for s in facts.sentences_of.get(name, [])[:1]
    ]
