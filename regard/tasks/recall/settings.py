"""Settings of `recall`."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.config.settings import DataSettings, Settings, TokenizerSettings, setting
from regard.data.paraphrase import ParaphraseMix


@dataclass(frozen=True)
class RecallDataSettings(DataSettings):
    """Facts and questions about people."""

    train: tuple[str, ...] = setting(
        (),
        "Facts (lines of `Name. Sentence`, also .gz), and a table of questions about some of the people, with answers.",
        metavar="FACTS QUESTIONS",
    )
    valid: str | None = setting(None, "Table of questions for validation. [a fifth of the people are held out]")
    valid_fraction: float = setting(
        0.2, "Fraction of the people in the questions that is held out, for validation and calibration."
    )
    drop: float = setting(0.2, "open: fraction of the words that are hidden from the reader in training.")
    reader: str | None = setting(
        None, "closed: an open-book run whose answers about all other people are used for training too."
    )


@dataclass(frozen=True)
class RecallTokenizerSettings(TokenizerSettings):
    """The defaults depend on the book."""

    kind: str | None = setting(None, "Tokenizer. [bpe for a closed book, words for an open book]")  # type: ignore[assignment]
    vocab_size: int | None = setting(None, "Size of the vocabulary. [6000 for a closed book, 2000 for an open book]")  # type: ignore[assignment]


@dataclass(frozen=True)
class RecallSettings(Settings):
    """Settings of `recall`. `mix` says how often an epoch contains each paraphrase of a fact (closed book)."""

    book: str = setting("closed", "closed: answer from the weights; open: find the answer in the sentence.")
    mix: ParaphraseMix = field(default_factory=ParaphraseMix)
    data: RecallDataSettings = field(default_factory=RecallDataSettings)
    tokenizer: RecallTokenizerSettings = field(default_factory=RecallTokenizerSettings)
