"""Models that are fitted to all texts in one call, and what the linear ones (TF-IDF, NB-SVM) share.

Terms are words and n-grams of words, counted by scikit-learn. A model is saved as numbers (safetensors) and a list of
terms (JSON), never as a pickle.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from scipy.special import expit
from sklearn.feature_extraction.text import CountVectorizer

from regard.errors import UserError

SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = rf"(?u)[{SPACELESS}]|[^\W{SPACELESS}]+"
"""A word; in scripts without spaces, a character."""
CERTAIN_LOGIT = 30.0
"""The logit of a label that all training texts have. A label that none has gets the negative of it."""


class FittedModel(Protocol):
    """A model after fitting. weight: (classes, terms)."""

    weight: np.ndarray

    def probabilities(self, texts: list[str], multi_label: bool = False) -> np.ndarray:
        """Probability of each class for each text, (n, classes). Rows sum to one unless `multi_label`."""
        ...

    def num_params(self) -> int:
        """The number of fitted parameters."""
        ...

    def files(self) -> dict[str, bytes]:
        """The content of the model's files by name; the config's `load` reads them."""
        ...


@runtime_checkable
class FittableConfig(Protocol):
    """The config of a model that is fitted in one call. It has `fit` and `load` in place of `build`."""

    def fit(
        self, texts: list[str], labels: np.ndarray, num_classes: int, seed: int, class_weights: np.ndarray | None = None
    ) -> FittedModel:
        """Fit a model.

        Args:
            texts: The training texts.
            labels: Class of each text, (n,); or its labels as zeros and ones, (n, classes), where a text may have
                several.
            num_classes: Number of classes.
            seed: Seed of the solver.
            class_weights: Weight of the texts of each class, (classes,); None for equal weights.
        """
        ...

    def load(self, folder: Path) -> FittedModel:
        """Read the files that `FittedModel.files` returned."""
        ...


@dataclass
class LinearTextModel:
    """A linear classifier over terms. weight: (classes, terms), bias: (classes,)."""

    config_class: ClassVar[type]

    vectorizer: Any
    weight: np.ndarray
    bias: np.ndarray

    def probabilities(self, texts: list[str], multi_label: bool = False) -> np.ndarray:
        """Probability of each class for each text, (n, classes). Rows sum to one unless `multi_label`."""
        logits = self.vectorizer.transform(texts) @ self.weight.T + self.bias
        return expit(logits) if multi_label else self.normalize(logits)

    def normalize(self, logits: np.ndarray) -> np.ndarray:
        """Logits (n, classes) to probabilities that sum to one."""
        return softmax(logits)

    def num_params(self) -> int:
        """The number of fitted parameters."""
        return int(self.weight.size + self.bias.size)

    def tensors(self) -> dict[str, np.ndarray]:
        """The numbers that are saved."""
        return {"weight": self.weight, "bias": self.bias}

    def files(self) -> dict[str, bytes]:
        """The content of the model's files by name."""
        terms = sorted(self.vectorizer.vocabulary_, key=self.vectorizer.vocabulary_.__getitem__)
        return {
            "model.safetensors": save(self.tensors()),
            "tokenizer.json": json.dumps({"kind": "ngrams", "terms": terms}, ensure_ascii=False).encode(),
        }


def read_files(folder: Path, *names: str) -> tuple[list[str], list[np.ndarray]]:
    """The terms of a saved model, and its numbers by name."""
    try:
        tensors = load_file(folder / "model.safetensors")
        terms = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["terms"]
        return terms, [tensors[name] for name in names]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise UserError(f"{folder} does not hold a complete linear text model: {error}") from None


def fit_vectorizer(build: Callable[..., CountVectorizer], texts: list[str], min_df: int) -> tuple[Any, Any]:
    """A vectorizer with the terms of the texts, and the features of the texts, (n, terms).

    Where every term is in fewer than `min_df` texts, as in very small files, all terms are used.
    """
    vectorizer: Any = build(min_df=min_df)
    try:
        return vectorizer, vectorizer.fit_transform(texts)
    except ValueError:
        vectorizer = build(min_df=1)
        return vectorizer, vectorizer.fit_transform(texts)


def one_vs_rest(labels: np.ndarray, c: int, class_weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Which texts have class c, (n,) bool, and the weight of each text, (n,)."""
    has_class = labels[:, c] > 0 if labels.ndim == 2 else labels == c
    if class_weights is None:
        return has_class, None
    return has_class, np.where(has_class, class_weights[c], 1.0) if labels.ndim == 2 else class_weights[labels]


def constant_logit(has_class: np.ndarray) -> float | None:
    """The logit of a class that all texts have, or none has, so that there is nothing to fit; otherwise None."""
    if has_class.any() and not has_class.all():
        return None
    return CERTAIN_LOGIT if has_class.any() else -CERTAIN_LOGIT


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax of each row."""
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)
