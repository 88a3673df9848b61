"""Runs of `language`: from files and folders of text to windows of a corpus on disk, and what a model of it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import specs
from regard.config.settings import DataSettings, Settings, TokenizerSettings, build
from regard.data import chunks, corpus, tokenizer
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Vocabulary
from regard.errors import UserError
from regard.models.linear_text_model import Fitted
from regard.tasks.language.objective import MODELS, OBJECTIVES, Language
from regard.tasks.language.run import SLIDING, VERBS, LanguageModel, no_stride, objective

__all__ = ["MODELS"]

RUN = LanguageModel
COMMANDS = {
    "generate": 'regard generate FOLDER "a beginning"',
    "fill": 'regard fill FOLDER "a [MASK] text"',
    "evaluate": "regard evaluate FOLDER FILE",
}
DEFAULTS = {"causal": "gpt", "masked": "bert", "blank": "birnn", "span": "gpt"}
VOCAB = {"bpe": 8000, "words": 20_000, "chars": 20_000, "spaces": 10_000_000}
SAMPLE = 64 << 20  # bytes of text from which words and parts of words are learnt, spread over all of it


@dataclass(frozen=True)
class Data(DataSettings):
    """Where the text is, what a document is (a file, or what stands between blank lines, or a line), how long windows
    are, how far they move when the validation part is scored (a whole window where it is not said), and where the
    tokens are kept (in the run folder). Where no file is named for validation, `valid_fraction` of the tokens are set
    aside, but `valid_tokens` at most: a large text would otherwise be scored for longer than it is learnt from."""

    train: tuple[str, ...] = ()
    documents: str = "file"
    block: int = 256
    stride: int | None = None
    cache: str | None = None
    valid_tokens: int = 500_000


@dataclass(frozen=True)
class WordSettings(TokenizerSettings):
    """`vocab` is 8,000 for bpe where it is not said, and for spaces every word that occurs."""

    kind: str = "bpe"
    vocab: int | None = None


@dataclass(frozen=True)
class LanguageSettings(Settings):
    """`corruption` is the Config that stands beside the objective."""

    objective: str = "causal"
    corruption: Any = None
    data: Data = field(default_factory=Data)
    tokenizer: WordSettings = field(default_factory=WordSettings)


SETTINGS = LanguageSettings


@dataclass(frozen=True)
class Texts:
    """The files of both parts; where none is named for validation, the last tokens are."""

    train: list[chunks.File]
    valid: list[chunks.File] | None
    fraction: float
    info: dict[str, Any]


def default(tree: Mapping[str, Any]) -> str:
    return DEFAULTS[str(tree.get("objective", "causal"))]


def own(tree: Mapping[str, Any]) -> dict[str, Any]:
    """With the objective's own settings built."""
    module = specs.find("objective", str(tree.get("objective", "causal")), OBJECTIVES)
    given = tree.get("corruption") or {}
    if not isinstance(given, Mapping):
        raise UserError(f"corruption wants a mapping, such as corruption.rate=0.2, and was given {given!r}")
    return {**tree, "corruption": build(module.Config, given, where="corruption")}


def check(settings: LanguageSettings) -> None:
    data, suits = settings.data, OBJECTIVES[settings.objective].MODELS
    if settings.model_name not in suits:
        able = {name: module.MODELS for name, module in OBJECTIVES.items() if settings.model_name in module.MODELS}
        raise UserError(
            f"model {settings.model_name!r} cannot learn the objective {settings.objective!r}, which is for "
            f"{' and '.join(suits)}; {settings.model_name} learns {' and '.join(able)}"
        )
    if data.block < 2:
        raise UserError(f"data.block must be 2 or more tokens, and was given {data.block}")
    if data.stride is not None and not 1 <= data.stride <= data.block:
        raise UserError(f"data.stride lies between 1 and data.block={data.block}, and was given {data.stride}")
    if not 0 < data.valid_fraction < 1:
        raise UserError(f"data.valid_fraction lies between 0 and 1, and was given {data.valid_fraction}")
    if data.valid_tokens < 1:
        raise UserError(
            f"data.valid_tokens says how many tokens are set aside at most, and was given {data.valid_tokens}"
        )
    chunks.known(data.documents)
    fields = type(settings.model).__dataclass_fields__
    if "vocab" in fields and settings.model.vocab != fields["vocab"].default:
        raise UserError("the model's vocabulary is its tokenizer's: say --vocab N, and not model.vocab")
    if "positions" in fields:
        name, options = specs.parse(settings.model.positions)
        if name == "learned" and int(options.get("length", 512)) < data.block:
            raise UserError(
                f"{settings.model.positions} knows fewer places than a window of data.block={data.block} has; say "
                f"--positions learned:length={data.block}, or positions without an end, such as rotary"
            )


def check_config(config: Mapping[str, Any]) -> None:
    _ = config["settings"]["objective"]


def read(settings: LanguageSettings, source: Any, say: Callable[[str], Any]) -> Texts:
    """Find the files. They are read when they are tokenised, a piece at a time."""
    if source is not None:
        raise UserError("a language model is trained on files or folders of text; give their names")
    data = settings.data
    if data.stride is not None and settings.objective not in SLIDING:
        raise UserError(f"--stride {data.stride} {no_stride(settings.objective)}")
    train, notes = chunks.find(data.train)
    for note in notes:
        say(note)
    info: dict[str, Any] = {"train": _info(train), "valid": {"split": data.valid_fraction}}
    if data.valid is None:
        return Texts(train, None, data.valid_fraction, info)
    valid, notes = chunks.find(data.valid)
    for note in notes:
        say(f"validation: {note}")
    return Texts(train, valid, 0.0, {**info, "valid": _info(valid)})


def facts(found: Texts) -> dict[str, Any]:
    return {}


def words(settings: LanguageSettings, found: Texts) -> Tokenizer:
    """A tokenizer learnt from the training part: from all of it where counting is enough, else from a sample."""
    kind = specs.find("tokenizer", settings.tokenizer.kind, {name: name for name in tokenizer.KINDS})
    vocab = settings.tokenizer.vocab or VOCAB[kind]
    return tokenizer.train(_texts(found, None if kind in ("chars", "spaces") else SAMPLE), kind, vocab)


def net(settings: LanguageSettings, config: Mapping[str, Any]) -> nn.Module:
    model = settings.model.build(config["vocab"])
    for p in OBJECTIVES[settings.objective].OBJECTIVE.idle(settings.corruption, model):
        p.requires_grad_(False)
    return model


def task(
    settings: LanguageSettings,
    found: Texts,
    words: Tokenizer,
    folder: Path,
    say: Callable[[str], Any],
    progress: bool,
) -> tuple[Language, str]:
    """The text tokenised, or found done, and cut into both parts."""
    data = settings.data
    place = Path(data.cache) if data.cache else folder / "corpus"
    same = {"documents": data.documents, "say": say, "progress": progress}
    whole = corpus.build(found.train, words, place, **same)
    if found.valid is None:
        aside = min(whole.tokens - round((1 - found.fraction) * whole.tokens), data.valid_tokens)
        train, valid = whole.split(whole.tokens - aside)
    else:
        train, valid = whole, corpus.build(found.valid, words, place / "valid", **same)
    for part, stream in (("train", train), ("valid", valid)):
        found.info[part] |= {"tokens": stream.tokens, "documents": len(stream)}
    made = Language(
        train,
        valid,
        objective(settings, Vocabulary(words)),
        block=data.block,
        batch_tokens=data.batch_tokens,
        seed=settings.seed,
    )
    return made, (
        f"{settings.objective}, {train.tokens:,} tokens to train on and {valid.tokens:,} for validation, "
        f"vocabulary {words.size:,} ({words.kind})"
    )


def fit(settings: LanguageSettings, found: Texts) -> tuple[Fitted, dict[str, float]]:
    raise NotImplementedError("every language model is trained in steps")


def size(info: Mapping[str, Any]) -> str:
    return f"{info['tokens']:,} tokens"


def uses(config: Mapping[str, Any]) -> list[str]:
    return [command for verb, command in COMMANDS.items() if verb in VERBS[config["settings"]["objective"]]]


def about(config: Mapping[str, Any]) -> str:
    settings = config["settings"]
    data, words = settings["data"], settings["tokenizer"]["kind"]
    moved = f"; validation with a stride of {data['stride'] or data['block']}"
    return (
        f"Objective: {settings['objective']}. Vocabulary: {config['vocab']:,} ({words}). Windows of {data['block']} "
        f"tokens{moved if settings['objective'] in SLIDING else ''}."
    )


def _texts(found: Texts, most: int | None) -> Iterator[str]:
    """The training text in blocks; where it is long, only some, evenly spread."""
    sizes = [chunks.size(file) for file in found.train]
    end = (1 - found.fraction) * sum(sizes)  # what lies behind is for validation
    every = 1 if most is None else max(1, -(-sum(sizes) // most))
    before = number = 0
    for file, length in zip(found.train, sizes, strict=True):
        for block in chunks.blocks(file, size=min(chunks.BLOCK, max(1, int(end) // 8))):
            if before + block.read > end and number:
                return
            if number % every == 0:
                yield block.data.decode("utf-8", "replace")  # the corpus tells what is not UTF-8
            number += 1
        before += length


def _info(files: list[chunks.File]) -> dict[str, Any]:
    digest = hashlib.sha256()
    for file in files:
        with chunks.opened(file) as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return {"name": files[0].name if len(files) == 1 else f"{len(files)} files", "fingerprint": digest.hexdigest()}
