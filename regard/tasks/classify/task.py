"""The task `classify`: predict the class of a document, or its several labels."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from regard.config.validation import check_fraction
from regard.data import labels
from regard.data.read_table import Table
from regard.data.tokenizer import SPECIAL_TOKENS, Tokenizer, train_tokenizer
from regard.errors import UserError
from regard.inspect import find_attention_layers
from regard.models.ensemble import Ensemble
from regard.models.linear_text_model import FittableConfig, FittedModel
from regard.tasks.base import FittableTask
from regard.tasks.classify.compare import ClassifyComparison
from regard.tasks.classify.dataset import ClassifyDataset, encode_texts, read_dataset
from regard.tasks.classify.metrics import compute_metrics
from regard.tasks.classify.objective import ClassifyObjective
from regard.tasks.classify.run import Classifier
from regard.tasks.classify.settings import ClassifySettings
from regard.tasks.run_dir import settings_from_config

logger = logging.getLogger(__name__)


class ClassifyTask(FittableTask[ClassifySettings, ClassifyDataset]):
    name = "classify"
    settings_class = ClassifySettings
    run_class = Classifier
    models: ClassVar[Mapping[str, str]] = {
        "han": "regard.models.han:HANConfig",
        "context-han": "regard.models.context_han:ContextHANConfig",
        "self-attentive": "regard.models.self_attentive:SelfAttentiveConfig",
        "transformer": "regard.models.transformer_classifier:TransformerClassifierConfig",
        "bilstm": "regard.models.bilstm:BiLSTMConfig",
        "cnn": "regard.models.strided_cnn:StridedCNNConfig",
        "kim-cnn": "regard.models.kim_cnn:KimCNNConfig",
        "gated-cnn": "regard.models.gated_cnn:GatedCNNConfig",
        "ngram-attention": "regard.models.ngram_attention:NGramAttentionConfig",
        "tfidf": "regard.models.tfidf:TfidfConfig",
        "nb-svm": "regard.models.nb_svm:NBSVMConfig",
    }

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return "han"

    def check_settings(self, settings: ClassifySettings) -> None:
        fitted = not hasattr(settings.model, "build")
        if settings.ensemble_size < 1:
            raise UserError(f"ensemble_size must be 1 or more, not {settings.ensemble_size}")
        if settings.ensemble_size > 1 and fitted:
            raise UserError(
                f"{settings.model_name} is fitted without randomness, so all models of an ensemble would be the same; "
                "leave out ensemble_size"
            )
        check_fraction("label_smoothing", settings.label_smoothing)
        if settings.label_smoothing and fitted:
            raise UserError(f"{settings.model_name} does not support label_smoothing; leave it out")

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["labels"][0]

    def read_dataset(self, settings: ClassifySettings, source: Table | None) -> ClassifyDataset:
        return read_dataset(settings, source)

    def config_entries(self, dataset: ClassifyDataset) -> dict[str, Any]:
        counts = labels.count_labels(dataset.labels, len(dataset.classes)).tolist()
        entries = {"labels": dataset.classes, "support": dict(zip(dataset.classes, counts, strict=True))}
        return entries if dataset.separator is None else {**entries, "separator": dataset.separator}

    def build_tokenizer(self, settings: ClassifySettings, dataset: ClassifyDataset) -> Tokenizer:
        return train_tokenizer(dataset.texts, settings.tokenizer.kind, settings.tokenizer.vocab_size)

    def build_model(self, settings: ClassifySettings, config: Mapping[str, Any]) -> nn.Module:
        models = [
            settings.model.build(config["vocab_size"], len(config["labels"])) for _ in range(settings.ensemble_size)
        ]
        return models[0] if len(models) == 1 else Ensemble(models)

    def build_objective(
        self,
        settings: ClassifySettings,
        dataset: ClassifyDataset,
        tokenizer: Tokenizer,
        folder: Path,
        progress: bool,
    ) -> tuple[ClassifyObjective, str]:
        train = encode_texts(dataset.texts, tokenizer, settings)
        valid = encode_texts(dataset.valid_texts, tokenizer, settings)
        if train.num_truncated:
            logger.info(
                f"{train.num_truncated:,} documents were truncated to {settings.data.max_tokens} tokens "
                "(--set data.max_tokens=N)"
            )
        objective = ClassifyObjective(
            train,
            dataset.labels,
            valid,
            dataset.valid_labels,
            num_classes=len(dataset.classes),
            batch_tokens=settings.data.batch_tokens,
            seed=settings.seed,
            class_weights=dataset.class_weights,
            label_smoothing=settings.label_smoothing,
        )
        return objective, f"{len(train):,} documents ({len(train.ids):,} tokens), {len(dataset.classes)} classes"

    def fit_model(self, settings: ClassifySettings, dataset: ClassifyDataset) -> tuple[FittedModel, dict[str, float]]:
        model = settings.model.fit(
            dataset.texts, dataset.labels, len(dataset.classes), settings.seed, dataset.class_weights
        )
        probabilities = model.probabilities(dataset.valid_texts, dataset.labels.ndim == 2)
        return model, compute_metrics(probabilities, dataset.valid_labels)

    def format_size(self, info: Mapping[str, Any]) -> str:
        return f"{info['rows']:,} rows"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        look = ['regard look FOLDER "some text"'] if _has_attention(config) else []
        return ['regard predict FOLDER "some text"', "regard evaluate FOLDER FILE", *look]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        return format_classes(config["labels"])

    def build_comparison(self) -> ClassifyComparison:
        return ClassifyComparison()


def format_classes(classes: list[str], limit: int = 20) -> str:
    """The names of the classes for a model card."""
    names = ", ".join(f"`{name}`" for name in classes[:limit])
    return f"Classes: {names}{f' and {len(classes) - limit} more' if len(classes) > limit else ''}."


def _has_attention(config: Mapping[str, Any]) -> bool:
    """Whether the model has attention layers: build one with a tiny vocabulary to see."""
    model_config: Any = settings_from_config(config).model
    if isinstance(model_config, FittableConfig):
        return False
    with torch.random.fork_rng(devices=[]):
        return bool(find_attention_layers(model_config.build(len(SPECIAL_TOKENS) + 1, len(config["labels"]))))
