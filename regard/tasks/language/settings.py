"""Settings of `language`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.config.settings import DataSettings, Settings, TokenizerSettings


@dataclass(frozen=True)
class LanguageDataSettings(DataSettings):
    """The text and its windows.

    Attributes:
        train: Text files and folders.
        documents: What a document is: "file", "blank-lines" or "lines" (regard/data/chunks.py).
        block_size: Tokens of a window.
        stride: How far the window moves when the validation part is scored. Default: a whole window.
        cache: Folder for the tokens. Default: in the run folder.
        valid_tokens: At most this many tokens are held out for validation, even if `valid_fraction` is more.
    """

    train: tuple[str, ...] = ()
    documents: str = "file"
    block_size: int = 256
    stride: int | None = None
    cache: str | None = None
    valid_tokens: int = 500_000


@dataclass(frozen=True)
class LanguageTokenizerSettings(TokenizerSettings):
    """The default `vocab_size` depends on the kind: 8,000 for bpe; every word of the text for spaces."""

    kind: str = "bpe"
    vocab_size: int | None = None  # type: ignore[assignment]


@dataclass(frozen=True)
class LanguageSettings(Settings):
    """Settings of `language`.

    Attributes:
        objective: "causal", "masked", "blank" or "span".
        corruption: The config dataclass of the objective.
    """

    objective: str = "causal"
    corruption: Any = None
    data: LanguageDataSettings = field(default_factory=LanguageDataSettings)
    tokenizer: LanguageTokenizerSettings = field(default_factory=LanguageTokenizerSettings)
