"""Settings of `language`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.config.settings import DataSettings, Settings, TokenizerSettings, setting


@dataclass(frozen=True)
class LanguageDataSettings(DataSettings):
    """The text and its windows."""

    train: tuple[str, ...] = setting(
        (),
        "Text files and folders (.txt, .md, also .gz), of any size; and columns of tables, such as reviews.csv:review.",
    )
    documents: str = setting("file", "What a document is: file, blank (separated by blank lines) or line.")
    block_size: int = setting(256, "Tokens in a window.")
    stride: int | None = setting(None, "Tokens that the window moves in validation. [a whole window]")
    cache: str | None = setting(None, "Folder for the tokenized text. [in the run folder]")
    valid_tokens: int = setting(500_000, "Largest number of tokens that are held out for validation.")


@dataclass(frozen=True)
class LanguageTokenizerSettings(TokenizerSettings):
    """The default `vocab_size` depends on the kind."""

    kind: str = setting("bpe", "Tokenizer: bpe, chars, words, or spaces (text that is already split into words).")
    vocab_size: int | None = setting(  # type: ignore[assignment]
        None, "Size of the vocabulary. [8000 for bpe, 20000 for words, all words for spaces]"
    )


@dataclass(frozen=True)
class LanguageSettings(Settings):
    """Settings of `language`. `corruption` is the config of the objective, such as `MaskedConfig`."""

    objective: str = setting("causal", "Objective: causal, masked, blank or span.")
    corruption: Any = None
    data: LanguageDataSettings = field(default_factory=LanguageDataSettings)
    tokenizer: LanguageTokenizerSettings = field(default_factory=LanguageTokenizerSettings)
