"""Settings of `classify`."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.config.settings import DataSettings, Settings, setting


@dataclass(frozen=True)
class ClassifyDataSettings(DataSettings):
    """The table and its columns."""

    train: str = setting(
        "",
        "CSV, TSV, JSONL or Parquet table (also .gz), lines of `label text`, or a folder with one subfolder per "
        "class, of texts or of images (as for `regard train images`).",
    )
    text: str | None = setting(None, "Column of the text: its name or number. [guessed]")
    label: str | None = setting(None, "Column of the label. [guessed]")
    max_tokens: int | None = setting(2000, "Longer documents are truncated.")
    multi_label: bool = setting(False, "A document may have several labels, such as drama|war.")
    separator: str | None = setting(None, "What separates several labels in a cell. [guessed]")
    class_weights: str | None = setting(
        None, "Weights of the classes in the loss: balanced, or good=1,bad=5. [all equal]"
    )


@dataclass(frozen=True)
class ClassifySettings(Settings):
    """Settings of `classify`."""

    ensemble_size: int = setting(1, "Number of models that are trained together; their predictions are averaged.")
    label_smoothing: float = setting(0.0, "Fraction of the target probability that is spread evenly over the classes.")
    data: ClassifyDataSettings = field(default_factory=ClassifyDataSettings)
