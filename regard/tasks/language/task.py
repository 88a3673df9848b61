"""The task `language`: predict tokens of running text. What is predicted from what is the objective's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from regard.config import specs
from regard.config.settings import build_dataclass
from regard.config.validation import check_between_0_and_1, check_minimum
from regard.data import chunks, corpus
from regard.data.token_properties import TokenProperties
from regard.data.tokenizer import KINDS, Tokenizer, train_tokenizer
from regard.errors import UserError
from regard.tasks.base import Task
from regard.tasks.language.compare import LanguageComparison
from regard.tasks.language.dataset import LanguageDataset, read_dataset, read_training_text
from regard.tasks.language.objective import LanguageObjective, build_token_objective, check_stride
from regard.tasks.language.objectives import OBJECTIVES, SLIDING
from regard.tasks.language.run import VERBS, LanguageModel
from regard.tasks.language.settings import LanguageSettings

COMMANDS = {
    "generate": 'regard generate FOLDER "a prompt"',
    "fill": 'regard fill FOLDER "a [MASK] text"',
    "evaluate": "regard evaluate FOLDER FILE",
}
DEFAULT_MODELS = {"causal": "gpt", "masked": "bert", "blank": "birnn", "span": "gpt"}
DEFAULT_VOCAB_SIZES = {"bpe": 8000, "words": 20_000, "chars": 20_000, "spaces": 10_000_000}
TOKENIZER_SAMPLE = 64 << 20  # bytes of text that a bpe or word tokenizer is trained on


class LanguageTask(Task[LanguageSettings, LanguageDataset]):
    name = "language"
    settings_class = LanguageSettings
    run_class = LanguageModel
    models: ClassVar[Mapping[str, str]] = {
        "gpt": "regard.models.gpt:GPTConfig",
        "ngram-gpt": "regard.models.ngram_gpt:NGramGPTConfig",
        "bert": "regard.models.bert:BERTConfig",
        "birnn": "regard.models.birnn:BiRNNConfig",
        "cnn": "regard.models.causal_cnn:CausalCNNConfig",
    }

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return DEFAULT_MODELS[str(tree.get("objective", "causal"))]

    def complete_settings(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        objective = specs.find_choice("objective", str(tree.get("objective", "causal")), OBJECTIVES)
        corruption = tree.get("corruption") or {}
        if not isinstance(corruption, Mapping):
            raise UserError(f"corruption must be a mapping, such as corruption.rate=0.2, not {corruption!r}")
        return {**tree, "corruption": build_dataclass(objective.config_class, corruption, where="corruption")}

    def check_settings(self, settings: LanguageSettings) -> None:
        data, name = settings.data, settings.model_name
        supported = {
            objective: cls.models
            for objective, cls in OBJECTIVES.items()
            if name in cls.models or objective in getattr(settings.model, "objectives", ())
        }
        if settings.objective not in supported:
            raise UserError(
                f"model {name!r} does not support the objective {settings.objective!r}. Models for it: "
                f"{', '.join(OBJECTIVES[settings.objective].models)}. Objectives of {name}: {', '.join(supported)}"
            )
        check_minimum("data.", data, block_size=2, valid_tokens=1)
        if data.stride is not None and not 1 <= data.stride <= data.block_size:
            raise UserError(f"data.stride must be between 1 and data.block_size={data.block_size}, not {data.stride}")
        check_between_0_and_1("data.valid_fraction", data.valid_fraction)
        chunks.check_documents(data.documents)
        positions, options = specs.parse_spec(getattr(settings.model, "positions", "none"))
        if positions == "learned" and int(options.get("length", 512)) < data.block_size:
            raise UserError(
                f"{settings.model.positions} has fewer positions than a window of data.block_size={data.block_size}; "
                f"use --positions learned:length={data.block_size}, or positions without a limit, such as rotary"
            )

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["settings"]["objective"]

    def read_dataset(self, settings: LanguageSettings, source: Any) -> LanguageDataset:
        check_stride(settings.objective, settings.data.stride)
        return read_dataset(settings, source)

    def build_tokenizer(self, settings: LanguageSettings, dataset: LanguageDataset) -> Tokenizer:
        kind = specs.find_choice("tokenizer", settings.tokenizer.kind, {name: name for name in KINDS})
        vocab_size = settings.tokenizer.vocab_size or DEFAULT_VOCAB_SIZES[kind]
        sample = None if kind in ("chars", "spaces") else TOKENIZER_SAMPLE  # these only count
        return train_tokenizer(read_training_text(dataset, sample), kind, vocab_size)

    def build_model(self, settings: LanguageSettings, config: Mapping[str, Any]) -> nn.Module:
        model = settings.model.build(config["vocab_size"])
        for parameter in OBJECTIVES[settings.objective].unused_parameters(settings.corruption, model):
            parameter.requires_grad_(False)
        return model

    def build_objective(
        self,
        settings: LanguageSettings,
        dataset: LanguageDataset,
        tokenizer: Tokenizer,
        folder: Path,
        progress: bool,
    ) -> tuple[LanguageObjective, str]:
        data = settings.data
        cache = Path(data.cache) if data.cache else folder / "corpus"
        options: dict[str, Any] = {"documents": data.documents, "progress": progress}
        train = corpus.build_corpus(dataset.train, tokenizer, cache, **options)
        if dataset.valid is None:
            total = train.num_tokens
            held_out = min(total - round((1 - dataset.valid_fraction) * total), data.valid_tokens)
            train, valid = train.split(total - held_out)
        else:
            valid = corpus.build_corpus(dataset.valid, tokenizer, cache / "valid", **options)
        for part, tokens in (("train", train), ("valid", valid)):
            dataset.info[part] |= {"tokens": tokens.num_tokens, "documents": len(tokens)}
        objective = LanguageObjective(
            train,
            valid,
            build_token_objective(settings, TokenProperties(tokenizer)),
            block_size=data.block_size,
            batch_tokens=data.batch_tokens,
            seed=settings.seed,
        )
        return objective, (
            f"{settings.objective}, {train.num_tokens:,} tokens to train on and {valid.num_tokens:,} for validation, "
            f"vocabulary {tokenizer.vocab_size:,} ({tokenizer.kind})"
        )

    def format_size(self, info: Mapping[str, Any]) -> str:
        return f"{info['tokens']:,} tokens"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        return [command for verb, command in COMMANDS.items() if verb in VERBS[config["settings"]["objective"]]]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        settings = config["settings"]
        data, objective = settings["data"], settings["objective"]
        stride = f"; validation with a stride of {data['stride'] or data['block_size']}"
        return (
            f"Objective: {objective}. Vocabulary: {config['vocab_size']:,} ({settings['tokenizer']['kind']}). Windows "
            f"of {data['block_size']} tokens{stride if objective in SLIDING else ''}."
        )

    def build_comparison(self) -> LanguageComparison:
        return LanguageComparison()
