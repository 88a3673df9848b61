"""The task `caption`: describe images."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from regard.config.validation import check_fraction
from regard.data.caption_files import CaptionedImages
from regard.data.tokenizer import UNK, Tokenizer, train_tokenizer
from regard.decoding import BeamSearch
from regard.decoding.caption_decoder import CaptionGenerator
from regard.errors import UserError
from regard.tasks.base import Task
from regard.tasks.caption.compare import CaptionComparison
from regard.tasks.caption.dataset import CaptionDataset, encode_captions, read_dataset
from regard.tasks.caption.metrics import compute_caption_metrics
from regard.tasks.caption.objective import GRAY, CaptionObjective
from regard.tasks.caption.run import SUPPRESSED_IDS, ImageCaptioner, max_tokens_per_word
from regard.tasks.caption.settings import CaptionDataSettings, CaptionSettings
from regard.tasks.image_input import describe_input, feature_entries, feature_width
from regard.tasks.image_settings import complete_augment

logger = logging.getLogger(__name__)

SIDE_WORDS = ("left", "right")


class CaptionTask(Task[CaptionSettings, CaptionDataset]):
    name = "caption"
    settings_class = CaptionSettings
    run_class = ImageCaptioner
    models: ClassVar[Mapping[str, str]] = {
        "rnn": "regard.models.rnn_captioner:RNNCaptionerConfig",
        "transformer": "regard.models.transformer_captioner:TransformerCaptionerConfig",
    }

    def default_model(self, tree: Mapping[str, Any]) -> str:
        return "rnn"

    def check_settings(self, settings: CaptionSettings) -> None:
        data = settings.data
        settings.augment.check()
        check_fraction("label_smoothing", settings.label_smoothing)
        if not 0 <= data.word_dropout <= 1:
            raise UserError(f"data.word_dropout must be between 0 and 1, got {data.word_dropout}")
        if settings.doubly_stochastic < 0:
            raise UserError(f"doubly_stochastic must be at least 0, got {settings.doubly_stochastic}")
        data.check(captions=1, max_words=1, bleu_images=0)
        for part, files in (("", data.train), ("validation ", data.valid)):
            if files and len(files) != 2:
                raise UserError(
                    f"expected {part}images (a folder or a zip) and their captions (a table), got {len(files)} files: "
                    "regard train caption IMAGES CAPTIONS"
                )

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["data"]["train"]["max_words"], config["settings"]["data"]["size"]

    def config_entries(self, dataset: CaptionDataset) -> dict[str, Any]:
        """Add the most frequent training caption, a baseline that ignores the image."""
        counts = Counter(caption for captions in dataset.train.captions for caption in captions)
        most_frequent = counts.most_common(1)[0][0]
        return {**feature_entries(dataset.train.images, dataset.backbone), "most_frequent_caption": most_frequent}

    def build_tokenizer(self, settings: CaptionSettings, dataset: CaptionDataset) -> Tokenizer:
        kind, vocab_size = settings.tokenizer.kind, settings.tokenizer.vocab_size
        texts = [caption for captions in dataset.train.captions for caption in captions]
        return train_tokenizer([f" {text}" for text in texts] if kind == "bpe" else texts, kind, vocab_size)

    def build_model(self, settings: CaptionSettings, config: Mapping[str, Any]) -> nn.Module:
        return settings.model.build(config["vocab_size"], feature_width(config))

    def build_objective(
        self,
        settings: CaptionSettings,
        dataset: CaptionDataset,
        tokenizer: Tokenizer,
        folder: Path,
        progress: bool,
    ) -> tuple[CaptionObjective, str]:
        data = settings.data
        train, num_skipped = encode_captions(dataset.train, tokenizer, data.max_words)
        valid, _ = encode_captions(dataset.valid, tokenizer, None)
        if num_skipped:
            logger.info(
                f"skipped {num_skipped:,} captions with more than {data.max_words} words (--set data.max_words=N)"
            )
        objective = CaptionObjective(
            dataset.train.images,
            train,
            dataset.valid.images,
            valid,
            batch_size=data.batch,
            captions_per_image=data.captions,
            seed=settings.seed,
            label_smoothing=settings.label_smoothing,
            doubly_stochastic=settings.doubly_stochastic,
            augment=settings.augment,
            word_dropout=data.word_dropout,
            blank=data.blank,
            side_words=_encode_side_words(tokenizer),
            evaluate_fn=_build_bleu_fn(dataset.valid, tokenizer, data) if data.bleu_images else None,
        )
        return objective, (
            f"{len(train):,} images with {sum(map(len, train)):,} captions, {len(valid):,} for validation, vocabulary "
            f"{tokenizer.vocab_size:,}"
        )

    def format_size(self, info: Mapping[str, Any]) -> str:
        return f"{info['rows']:,} images"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        return [
            "regard caption FOLDER IMAGE",
            "regard look FOLDER IMAGE",
            "regard evaluate FOLDER IMAGES CAPTIONS",
        ]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        return f"{describe_input(config)} Vocabulary: {config['vocab_size']:,}."

    def complete_settings(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        return complete_augment(tree)

    def read_dataset(self, settings: CaptionSettings, source: Any) -> CaptionDataset:
        return read_dataset(settings, source)

    def build_comparison(self) -> CaptionComparison:
        return CaptionComparison()


def _encode_side_words(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of words that become wrong when an image is flipped."""
    words = [f" {word}" if tokenizer.kind == "bpe" else word for word in SIDE_WORDS]
    encodings = [encoding.ids for encoding in tokenizer.encode_batch_raw(words)]
    return [ids[0] for ids in encodings if len(ids) == 1 and ids[0] != UNK]


def _build_bleu_fn(
    valid: CaptionedImages, tokenizer: Tokenizer, data: CaptionDataSettings
) -> Callable[[nn.Module], dict[str, float]]:
    """Return a function that measures BLEU and exact match of greedy captions of the first validation images."""
    count = min(data.bleu_images, len(valid))
    images, references = np.asarray(valid.images[:count]), valid.captions[:count]
    images = np.full_like(images, GRAY) if data.blank else images

    def evaluate(model: nn.Module) -> dict[str, float]:
        hypotheses = CaptionGenerator(model, suppress=SUPPRESSED_IDS).generate(
            images, strategy=BeamSearch(1), max_length=max_tokens_per_word(tokenizer) * data.max_words
        )
        captions = [tokenizer.decode(candidates[0].ids).strip() for candidates in hypotheses]
        metrics = compute_caption_metrics(captions, references)
        return {name: metrics[name] for name in ("bleu", "exact")}

    return evaluate
