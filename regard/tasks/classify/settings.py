"""Settings of `classify`."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.config.settings import DataSettings, Settings

LABEL_COUNTS = ("one", "many")


@dataclass(frozen=True)
class ClassifyDataSettings(DataSettings):
    """The table and its columns.

    Attributes:
        train: A table, or a folder with one subfolder per class.
        text: Column with the text. Guessed if not given.
        label: Column with the label. Guessed if not given.
        max_tokens: Longer documents are truncated.
        labels: How many labels a document has: "one" or "many".
        separator: What separates several labels in one cell. Guessed if not given.
        class_weights: "balanced", or "label=weight,label=weight" (regard/data/labels.py).
    """

    train: str = ""
    text: str | None = None
    label: str | None = None
    max_tokens: int | None = 2000
    labels: str = "one"
    separator: str | None = None
    class_weights: str | None = None


@dataclass(frozen=True)
class ClassifySettings(Settings):
    """Settings of `classify`.

    Attributes:
        ensemble_size: How many models are trained together; their predictions are averaged.
        label_smoothing: Fraction of the target probability that is spread evenly over the classes.
    """

    ensemble_size: int = 1
    label_smoothing: float = 0.0
    data: ClassifyDataSettings = field(default_factory=ClassifyDataSettings)
