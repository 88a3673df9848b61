"""Settings of `caption`."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.config.settings import Settings, TokenizerSettings, setting
from regard.tasks.image_settings import AugmentSettings, ImageDataSettings


@dataclass(frozen=True)
class CaptionDataSettings(ImageDataSettings):
    """Images and their captions."""

    train: tuple[str, ...] = setting(
        (),
        "Images (a folder or zip file) or features (.npz, .safetensors, a folder of .npy), and captions: lines of "
        "file name, tab, caption (.tsv, .csv, also .gz), or COCO JSON.",
        metavar="IMAGES CAPTIONS",
    )
    valid: tuple[str, ...] | None = setting(  # type: ignore[assignment]
        None, "Validation data: --valid IMAGES --valid CAPTIONS. [a fraction is held out]"
    )
    valid_fraction: float = setting(0.05, "Fraction of the images that is held out without validation data.")
    captions: int = setting(5, "Captions of each image that are used in training.")
    max_words: int = setting(40, "Longest caption to train on, in words.")
    bleu_images: int = setting(
        0,
        "Validation images that are captioned for BLEU at each evaluation; BLEU then selects the best checkpoint. "
        "[0: the loss does]",
    )
    word_dropout: float = setting(0.0, "Fraction of the words that are hidden from the decoder in training.")
    blank: bool = setting(False, "Hide the images, to measure what can be said without looking.")


@dataclass(frozen=True)
class CaptionTokenizerSettings(TokenizerSettings):
    """Tokenizer of the captions."""

    kind: str = setting("spaces", "Tokenizer: spaces (whole words) or bpe.")
    vocab_size: int = setting(3000, "Size of the vocabulary.")


@dataclass(frozen=True)
class CaptionSettings(Settings):
    """Settings of `caption`."""

    label_smoothing: float = setting(
        0.1, "Fraction of the target probability that is spread evenly over the vocabulary."
    )
    doubly_stochastic: float = setting(
        0.0, "Weight of the doubly stochastic attention term (Xu et al. 2015, section 4.2.1)."
    )
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    data: CaptionDataSettings = field(default_factory=CaptionDataSettings)
    tokenizer: CaptionTokenizerSettings = field(default_factory=CaptionTokenizerSettings)
