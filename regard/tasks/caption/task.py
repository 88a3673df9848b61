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
from regard.data import tokenizer
from regard.data.caption_files import CaptionedImages
from regard.data.tokenizer import UNK, Tokenizer
from regard.decoding import BeamSearch
from regard.decoding.caption_decoder import CaptionGenerator
from regard.errors import UserError
from regard.tasks.base import Task
from regard.tasks.caption.compare import CaptionComparison
from regard.tasks.caption.dataset import CaptionDataset, encode, read_dataset
from regard.tasks.caption.metrics import scores
from regard.tasks.caption.objective import GREY, Caption
from regard.tasks.caption.run import NEVER, CaptionRun, pieces
from regard.tasks.caption.settings import CaptionDataSettings, CaptionSettings
from regard.tasks.image_input import describe_input, feature_entries, feature_width
from regard.tasks.image_settings import complete_augment

logger = logging.getLogger(__name__)

SIDES = ("left", "right")


class CaptionTask(Task[CaptionSettings, CaptionDataset]):
    name = "caption"
    settings_class = CaptionSettings
    run_class = CaptionRun
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
        if not 0 <= data.hide <= 1:
            raise UserError(f"data.hide is a share from 0 to 1, and was given {data.hide}")
        if settings.doubly < 0:
            raise UserError(f"doubly is a weight of 0 or more, and was given {settings.doubly}")
        data.check(captions=1, longest=1, scored=0)
        for part, files in (("", data.train), ("validation ", data.valid)):
            if files and len(files) != 2:
                raise UserError(
                    f"{part}pictures (a folder or a zip) and their captions (a table) are wanted, and {len(files)} names "
                    "were given: regard train caption PICTURES CAPTIONS"
                )

    def check_config(self, config: Mapping[str, Any]) -> None:
        _ = config["data"]["train"]["longest"], config["settings"]["data"]["size"]

    def config_entries(self, found: CaptionDataset) -> dict[str, Any]:
        """With the caption that stands most often in the training part: what is said without looking at all."""
        counts = Counter(caption for each in found.train.captions for caption in each)
        return {**feature_entries(found.train.images, found.backbone), "commonest": counts.most_common(1)[0][0]}

    def build_tokenizer(self, settings: CaptionSettings, found: CaptionDataset) -> Tokenizer:
        texts = [caption for each in found.train.captions for caption in each]
        kind, vocab = settings.tokenizer.kind, settings.tokenizer.vocab_size
        return tokenizer.train_tokenizer([f" {t}" for t in texts] if kind == "bpe" else texts, kind, vocab)

    def build_model(self, settings: CaptionSettings, config: Mapping[str, Any]) -> nn.Module:
        return settings.model.build(config["vocab_size"], feature_width(config))

    def build_objective(
        self,
        settings: CaptionSettings,
        found: CaptionDataset,
        words: Tokenizer,
        folder: Path,
        progress: bool,
    ) -> tuple[Caption, str]:
        data = settings.data
        train, cut = encode(found.train, words, data.longest)
        valid, _ = encode(found.valid, words, None)
        if cut:
            logger.info(
                f"{cut:,} captions have more than {data.longest} words and are not learnt (--set data.longest=N)"
            )
        pictures = [part.images for part in (found.train, found.valid)]
        job = Caption(
            pictures[0],
            train,
            pictures[1],
            valid,
            batch=data.batch,
            several=data.captions,
            seed=settings.seed,
            label_smoothing=settings.label_smoothing,
            doubly=settings.doubly,
            augment=settings.augment,
            hide=data.hide,
            blank=data.blank,
            sides=_sides(words),
            scored=_scored(found.valid, words, data) if data.scored else None,
        )
        count = sum(map(len, train))
        return job, (
            f"{len(train):,} pictures with {count:,} captions, {len(valid):,} for validation, vocabulary {words.vocab_size:,}"
        )

    def format_size(self, info: Mapping[str, Any]) -> str:
        return f"{info['rows']:,} pictures"

    def usage_commands(self, config: Mapping[str, Any]) -> list[str]:
        return [
            "regard caption FOLDER PICTURE",
            "regard look FOLDER PICTURE",
            "regard evaluate FOLDER PICTURES CAPTIONS",
        ]

    def describe_run(self, config: Mapping[str, Any]) -> str:
        return f"{describe_input(config)} It knows {config['vocab_size']:,} words."

    def complete_settings(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        return complete_augment(tree)

    def read_dataset(self, settings: CaptionSettings, source: Any) -> CaptionDataset:
        return read_dataset(settings, source)

    def build_comparison(self) -> CaptionComparison:
        return CaptionComparison()


def _sides(words: Tokenizer) -> list[int]:
    """The ids of words that a mirror makes untrue."""
    marked = [f" {word}" if words.kind == "bpe" else word for word in SIDES]
    return [found.ids[0] for found in words.encode_batch_raw(marked) if len(found.ids) == 1 and found.ids[0] != UNK]


def _scored(
    valid: CaptionedImages, words: Tokenizer, data: CaptionDataSettings
) -> Callable[[nn.Module], dict[str, float]]:
    """BLEU and exactness of the first validation pictures, said greedily."""
    count = min(data.scored, len(valid))
    pictures, wanted = np.asarray(valid.images[:count]), valid.captions[:count]
    seen = np.full_like(pictures, GREY) if data.blank else pictures

    def scored(model: nn.Module) -> dict[str, float]:
        said = CaptionGenerator(model, suppress=NEVER).generate(seen, strategy=BeamSearch(1), max_length=pieces(words) * data.longest)
        measured = scores([words.decode(one[0].ids).strip() for one in said], wanted)
        return {name: measured[name] for name in ("bleu", "exact")}

    return scored
