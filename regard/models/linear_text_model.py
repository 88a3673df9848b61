"""Models that are fitted to all texts at once, not trained in steps, and what linear ones over words and word pairs
share: terms counted by scikit-learn, kept as plain numbers (safetensors) and a list of terms (JSON), no pickle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from sklearn.feature_extraction.text import CountVectorizer

from regard.errors import UserError

SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = rf"(?u)[{SPACELESS}]|[^\W{SPACELESS}]+"
"""A word; in scripts without spaces, a character."""


class FittedModel(Protocol):
    """A model that has seen its texts. weight: (classes, terms)."""

    weight: np.ndarray

    def probabilities(self, texts: list[str], many: bool = False) -> np.ndarray:
        """p(class) of each text, (n, classes): they sum to one, unless there may be `many`."""
        ...

    def params(self) -> int: ...

    def files(self) -> dict[str, bytes]:
        """What `load` reads, by name."""
        ...


@runtime_checkable
class FittableConfig(Protocol):
    """The Config of such a model, which has these two instead of `build`."""

    def fit(
        self, texts: list[str], labels: np.ndarray, classes: int, seed: int, weights: np.ndarray | None = None
    ) -> FittedModel:
        """labels: class numbers (n,), or memberships (n, classes) where a text may have several; weights (classes,):
        how much a text of a class weighs, or that has a label."""
        ...

    def load(self, folder: Path) -> FittedModel: ...


def counted(make: Callable[..., CountVectorizer], texts: list[str], least: int) -> tuple[Any, Any]:
    """The vectorizer that has learned its terms, and the features of the texts."""
    vectorizer: Any = make(min_df=least)
    try:
        return vectorizer, vectorizer.fit_transform(texts)
    except ValueError:  # every term in fewer documents than asked for, as with very small files
        vectorizer = make(min_df=1)
        return vectorizer, vectorizer.fit_transform(texts)


def to_files(vectorizer: Any, tensors: dict[str, np.ndarray]) -> dict[str, bytes]:
    terms = sorted(vectorizer.vocabulary_, key=vectorizer.vocabulary_.__getitem__)
    return {
        "model.safetensors": save(tensors),
        "tokenizer.json": json.dumps({"kind": "ngrams", "terms": terms}, ensure_ascii=False).encode(),
    }


def from_files(folder: Path, *names: str) -> tuple[list[str], list[np.ndarray]]:
    """The terms, and the named numbers."""
    try:
        tensors = load_file(folder / "model.safetensors")
        terms = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["terms"]
        return terms, [tensors[name] for name in names]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
        raise UserError(f"{folder} does not hold a whole bag-of-words model: {problem}") from None


def rest(labels: np.ndarray, c: int, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Which texts are of class c, and what each weighs, for a model of it against the rest."""
    inside = labels[:, c] > 0 if labels.ndim == 2 else labels == c
    if weights is None:
        return inside, None
    return inside, np.where(inside, weights[c], 1.0) if labels.ndim == 2 else weights[labels]


def certain(inside: np.ndarray) -> float | None:
    """Where all texts have a label, or none has: the logit of saying so, with nothing to learn."""
    return None if inside.any() and not inside.all() else (30.0 if inside.any() else -30.0)


def shares(logits: np.ndarray) -> np.ndarray:
    """exp of each row, made to sum to one."""
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)
