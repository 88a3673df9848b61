"""The task `translate`: predict a target sentence from a source sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from regard.config import specs
from regard.config.validation import check_between_0_and_1, check_fraction, check_minimum
from regard.data.parallel_text import encode_pairs, encode_with_bpe_dropout
from regard.data.tokenizer import Tokenizer, train_tokenizer
from regard.errors import UserError
from regard.tasks.base import Task
from regard.tasks.translate.compare import TranslateComparison
from regard.tasks.translate.dataset import TranslateDataset, read_dataset
from regard.tasks.translate.metrics import bleu
from regard.tasks.translate.objective import TranslateObjective
from regard.tasks.translate.run import Translator, translate_greedily
from regard.tasks.translate.settings import TranslateDataSettings, TranslateSettings

logger = logging.getLogger(__name__)


class TranslateTask(Task[TranslateSettings, TranslateDataset]):
    name = "translate"
    settings_class = TranslateSettings
    run_class = Translator
    models: ClassVar[Mapping[str, str]] = {
        "transformer": "regard.models.transformer:TransformerConfig",
        "rnn": "regard.models.rnn_translator:RNNTranslatorConfig",
    }

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return "transformer"

    def check_settings(self, settings: TranslateSettings) -> None:
        data, tokenizer = settings.data, settings.tokenizer
        check_fraction("label_smoothing", settings.label_smoothing)
        check_fraction("tokenizer.dropout", tokenizer.dropout)
        if tokenizer.dropout and tokenizer.kind != "bpe":
            raise UserError(f"tokenizer.dropout needs tokenizer.kind=bpe, not {tokenizer.kind!r}")
        check_between_0_and_1("data.valid_fraction", data.valid_fraction)
        check_minimum("data.", data, max_tokens=1, bleu=0)
        positions, options = specs.parse_spec(getattr(settings.model, "positions", "none"))
        if positions == "learned" and int(options.get("length", 512)) <= data.max_tokens:
            raise UserError(
                f"{settings.model.positions} has fewer positions than data.max_tokens={data.max_tokens} tokens and an "
                f"end token need; use --positions learned:length={data.max_tokens + 1}, or sinusoidal"
            )

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["data"]["train"]["longest"]

    def read_dataset(self, settings: TranslateSettings, source: Any) -> TranslateDataset:
        return read_dataset(settings, source)

    def build_tokenizer(self, settings: TranslateSettings, dataset: TranslateDataset) -> Tokenizer:
        texts = [*dataset.train.sources, *dataset.train.targets]
        kind = settings.tokenizer.kind
        if kind == "bpe":  # a word at the start of a sentence is the same token as elsewhere
            texts = [f" {text}" for text in texts]
        return train_tokenizer(texts, kind, settings.tokenizer.vocab_size, lowercase=False)

    def build_model(self, settings: TranslateSettings, config: Mapping[str, Any]) -> nn.Module:
        return settings.model.build(config["vocab_size"])

    def build_objective(
        self,
        settings: TranslateSettings,
        dataset: TranslateDataset,
        tokenizer: Tokenizer,
        folder: Path,
        progress: bool,
    ) -> tuple[TranslateObjective, str]:
        data = settings.data
        train = encode_pairs(dataset.train, tokenizer, max_tokens=data.max_tokens)
        valid = encode_pairs(dataset.valid, tokenizer, max_tokens=data.max_tokens)
        if train.num_skipped:
            logger.info(
                f"{train.num_skipped:,} pairs have a side of more than {data.max_tokens} tokens and are left out "
                "(--set data.max_tokens=N)"
            )
        encode_epoch = None
        if settings.tokenizer.dropout:
            encode_epoch = encode_with_bpe_dropout(
                dataset.train, tokenizer, data.max_tokens, settings.tokenizer.dropout, settings.seed
            )
        longest, tokens = int(train.target_lengths.max()), len(train.source) + len(train.target)
        dataset.info["train"] |= {"longest": longest, "tokens": tokens}
        objective = TranslateObjective(
            train,
            valid,
            batch_tokens=data.batch_tokens,
            seed=settings.seed,
            label_smoothing=settings.label_smoothing,
            compute_bleu=_bleu_function(dataset, tokenizer, data, longest) if data.bleu else None,
            encode_epoch=encode_epoch,
        )
        return objective, (
            f"{len(train):,} pairs ({tokens:,} tokens), {len(valid):,} for validation, vocabulary "
            f"{tokenizer.vocab_size:,} ({tokenizer.kind})"
        )

    def format_size(self, info: Mapping[str, Any]) -> str:
        return f"{info['rows']:,} pairs"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        return ["regard translate FOLDER FILE", "regard evaluate FOLDER SOURCES REFERENCES"]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        kind = config["settings"]["tokenizer"]["kind"]
        return f"One vocabulary of {config['vocab_size']:,} ({kind}) for both sides."

    def build_comparison(self) -> TranslateComparison:
        return TranslateComparison()


def _bleu_function(
    dataset: TranslateDataset, tokenizer: Tokenizer, data: TranslateDataSettings, longest: int
) -> Callable[[nn.Module], dict[str, float]]:
    """A function that computes the lowercase BLEU of greedy translations of the first validation sentences."""
    sources, references = dataset.valid.sources[: data.bleu], dataset.valid.targets[: data.bleu]
    return lambda model: {
        "bleu_lc": bleu(translate_greedily(model, tokenizer, sources, data.max_tokens, longest), references)
    }
