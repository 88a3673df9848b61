"""Runs of `translate`: from two aligned files, or a table with two columns, to a model of two sides."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.config import specs
from regard.config.settings import DataSettings, Settings, TokenizerSettings
from regard.config.validation import check_fraction
from regard.data import parallel_text, tokenizer
from regard.data.tokenizer import Tokenizer
from regard.data.train_valid_split import count_duplicates
from regard.errors import UserError
from regard.models.linear_text_model import FittedModel
from regard.tasks.translate.metrics import bleu
from regard.tasks.translate.objective import MODELS, Scored, Translate
from regard.tasks.translate.run import Translator, greedy

logger = logging.getLogger(__name__)

__all__ = ["MODELS"]

RUN = Translator


@dataclass(frozen=True)
class Data(DataSettings):
    """Where the pairs are: two files, or one table with the columns `source` and `target`; after how many tokens a
    side is too long; and of how many validation sentences BLEU is taken at each evaluation (none: the loss decides
    about the best model)."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] | None = None  # type: ignore[assignment]
    source: str | None = None
    target: str | None = None
    valid_fraction: float = 0.05
    max_tokens: int = 256
    bleu: int = 0


@dataclass(frozen=True)
class WordSettings(TokenizerSettings):
    """One vocabulary for both sides. `dropout` is the chance that a merge of bpe is left out in training."""

    kind: str = "bpe"
    vocab: int = 8000
    dropout: float = 0.0


@dataclass(frozen=True)
class TranslateSettings(Settings):
    """`smoothing` is the share of the chance that all words have alike in what is learnt."""

    smoothing: float = 0.1
    data: Data = field(default_factory=Data)
    tokenizer: WordSettings = field(default_factory=WordSettings)


SETTINGS = TranslateSettings


@dataclass(frozen=True)
class Found:
    """Pairs of both parts."""

    train: parallel_text.ParallelTexts
    valid: parallel_text.ParallelTexts
    info: dict[str, Any]


def default(tree: Mapping[str, Any]) -> str:
    return "transformer"


def own(tree: Mapping[str, Any]) -> dict[str, Any]:
    return dict(tree)


def check(settings: TranslateSettings) -> None:
    data = settings.data
    share("smoothing", settings.smoothing)
    if not 0 <= settings.tokenizer.dropout < 1:
        raise UserError(f"tokenizer.dropout is a chance from 0 to below 1, and was given {settings.tokenizer.dropout}")
    if settings.tokenizer.dropout and settings.tokenizer.kind != "bpe":
        raise UserError(f"tokenizer.dropout is for kind bpe, and the tokenizer is one of {settings.tokenizer.kind!r}")
    if not 0 < data.valid_fraction < 1:
        raise UserError(f"data.valid_fraction lies between 0 and 1, and was given {data.valid_fraction}")
    for name, least in (("max_tokens", 1), ("bleu", 0)):
        if getattr(data, name) < least:
            raise UserError(f"data.{name} must be {least} or more, and was given {getattr(data, name)}")
    fields = type(settings.model).__dataclass_fields__
    if "vocab" in fields and settings.model.vocab != fields["vocab"].default:
        raise UserError("the model's vocabulary is its tokenizer's: say --vocab N, and not model.vocab")
    if "positions" in fields:
        name, options = specs.parse(settings.model.positions)
        if name == "learned" and int(options.get("length", 512)) <= data.max_tokens:
            raise UserError(
                f"{settings.model.positions} knows fewer places than a side of data.max_tokens={data.max_tokens} has "
                f"with its end; say --positions learned:length={data.max_tokens + 1}, or sinusoidal"
            )


def check_config(config: Mapping[str, Any]) -> None:
    _ = config["data"]["train"]["longest"]


def read(settings: TranslateSettings, source: Any) -> Found:
    """Read the pairs, and set a validation part aside where none is named."""
    if source is not None:
        raise UserError(
            "a translator is trained on two aligned files, or on a table with two columns; give their names"
        )
    data = settings.data
    whole = parallel_text.read_parallel_texts(data.train, source=data.source, target=data.target)
    for note in whole.notes:
        logger.info(note)
    if data.valid is not None:
        columns = (data.source, data.target) if len(data.valid) == 1 else (None, None)
        valid = parallel_text.read_parallel_texts(data.valid, source=columns[0], target=columns[1])
        for note in valid.notes:
            logger.info(f"validation: {note}")
        train, info = whole, _info(valid, data.valid)
    else:
        train, valid = _split(whole, data.valid_fraction, settings.seed)
        info = {"rows": len(valid.sources), "split": data.valid_fraction}
        logger.info(f"{len(valid.sources):,} of {len(whole.sources):,} pairs set aside for validation")
    repeated = count_duplicates(train.sources, valid.sources)
    if repeated:
        logger.warning(f"{repeated:,} of the {len(valid.sources):,} validation sources stand in the training part too")
    return Found(train, valid, {"train": {**_info(train, data.train), "longest": 0}, "valid": info})


def facts(found: Found) -> dict[str, Any]:
    return {}


def words(settings: TranslateSettings, found: Found) -> Tokenizer:
    """One tokenizer for both sides, learnt from the training part."""
    texts = [*found.train.sources, *found.train.targets]
    kind, vocab = settings.tokenizer.kind, settings.tokenizer.vocab
    shown = [f" {text}" for text in texts] if kind == "bpe" else texts
    return tokenizer.train_tokenizer(shown, kind, vocab, lowercase=False)


def net(settings: TranslateSettings, config: Mapping[str, Any]) -> nn.Module:
    return settings.model.build(config["vocab"])


def task(
    settings: TranslateSettings,
    found: Found,
    words: Tokenizer,
    folder: Path,
    progress: bool,
) -> tuple[Translate, str]:
    """Both parts tokenized, as a task for the loop."""
    data = settings.data
    train = parallel_text.encode_pairs(found.train, words, max_tokens=data.max_tokens)
    valid = parallel_text.encode_pairs(found.valid, words, max_tokens=data.max_tokens)
    if train.num_skipped:
        logger.info(
            f"{train.num_skipped:,} pairs have a side of more than {data.max_tokens} tokens and are left out "
            "(--set data.max_tokens=N)"
        )
    recut = None
    if settings.tokenizer.dropout:
        recut = parallel_text.encode_with_bpe_dropout(
            found.train, words, data.max_tokens, settings.tokenizer.dropout, settings.seed
        )
    found.info["train"] |= {"longest": int(train.target_lengths.max()), "tokens": len(train.source) + len(train.target)}
    job = Translate(
        train,
        valid,
        batch_tokens=data.batch_tokens,
        seed=settings.seed,
        smoothing=settings.smoothing,
        scored=_scored(found, words, data, int(train.target_lengths.max())) if data.bleu else None,
        recut=recut,
    )
    return job, (
        f"{len(train):,} pairs ({len(train.source) + len(train.target):,} tokens), {len(valid):,} for validation, "
        f"vocabulary {words.vocab_size:,} ({words.kind})"
    )


def _scored(found: Found, words: Tokenizer, data: Data, longest: int) -> Scored:
    """BLEU of the first validation sentences, said greedily, letter case aside."""
    sources, wanted = found.valid.sources[: data.bleu], found.valid.targets[: data.bleu]
    return lambda model: {"bleu_lc": bleu(greedy(model, words, sources, data.max_tokens, longest), wanted)}


def fit(settings: TranslateSettings, found: Found) -> tuple[FittedModel, dict[str, float]]:
    raise NotImplementedError("every translator is trained in steps")


def size(info: Mapping[str, Any]) -> str:
    return f"{info['rows']:,} pairs"


def uses(config: Mapping[str, Any]) -> list[str]:
    return ["regard translate FOLDER FILE", "regard evaluate FOLDER SOURCES REFERENCES"]


def about(config: Mapping[str, Any]) -> str:
    return f"One vocabulary of {config['vocab']:,} ({config['settings']['tokenizer']['kind']}) for both sides."


def _info(texts: parallel_text.ParallelTexts, files: tuple[str, ...]) -> dict[str, Any]:
    names = " and ".join(Path(file).name for file in files)
    return {"name": names, "fingerprint": texts.fingerprint, "rows": len(texts.sources), "notes": texts.notes}


def _split(
    texts: parallel_text.ParallelTexts, fraction: float, seed: int
) -> tuple[parallel_text.ParallelTexts, parallel_text.ParallelTexts]:
    """By chance, one pair at least on each side; pairs with the same source stay together."""
    numbers: dict[str, int] = {}
    group = np.array([numbers.setdefault(source, len(numbers)) for source in texts.sources])
    if len(numbers) < 2:
        raise UserError("pairs with two different sources or more are wanted, to set some aside for validation")
    count = int(np.clip(round(len(numbers) * fraction), 1, len(numbers) - 1))
    aside = np.isin(group, np.random.default_rng(seed).permutation(len(numbers))[:count])

    def part(chosen: np.ndarray) -> parallel_text.ParallelTexts:
        kept = np.flatnonzero(chosen).tolist()
        return parallel_text.ParallelTexts(
            [texts.sources[i] for i in kept], [texts.targets[i] for i in kept], [], texts.fingerprint
        )

    return part(~aside), part(aside)
