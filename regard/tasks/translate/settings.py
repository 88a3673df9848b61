"""Settings of `translate`."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.config.settings import DataSettings, Settings, TokenizerSettings, setting


@dataclass(frozen=True)
class TranslateDataSettings(DataSettings):
    """The sentence pairs."""

    train: tuple[str, ...] = setting(
        (), "Two aligned files, source and target (also .gz), or one table with two columns.", metavar="SOURCE TARGET"
    )
    valid: tuple[str, ...] | None = setting(  # type: ignore[assignment]
        None, "Validation data: --valid SOURCE --valid TARGET, or one table. [a fraction is held out]"
    )
    source: str | None = setting(None, "Column of the source in a table: its name or number. [guessed]")
    target: str | None = setting(None, "Column of the target in a table. [guessed]")
    valid_fraction: float = setting(0.05, "Fraction of the pairs that is held out without validation data.")
    max_tokens: int = setting(256, "Pairs with a longer side are left out.")
    bleu: int = setting(
        0,
        "Validation sentences that are translated for lowercased BLEU at each evaluation; BLEU then selects the "
        "best checkpoint. [0: the loss does]",
    )


@dataclass(frozen=True)
class TranslateTokenizerSettings(TokenizerSettings):
    """One vocabulary for both languages."""

    kind: str = setting("bpe", "Tokenizer: bpe, chars, words, or spaces (text that is already split into words).")
    vocab_size: int = setting(8000, "Size of the vocabulary of both languages.")
    dropout: float = setting(0.0, "Probability of BPE-dropout in training.")


@dataclass(frozen=True)
class TranslateSettings(Settings):
    """Settings of `translate`."""

    label_smoothing: float = setting(
        0.1, "Fraction of the target probability that is spread evenly over the vocabulary."
    )
    data: TranslateDataSettings = field(default_factory=TranslateDataSettings)
    tokenizer: TranslateTokenizerSettings = field(default_factory=TranslateTokenizerSettings)
