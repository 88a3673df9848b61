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


class Fitted(Protocol):
    """A model that has seen its texts. weight: (classes, terms)."""

    weight: np.ndarray

    def probabilities(self, texts: list[str]) -> np.ndarray: ...

    def params(self) -> int: ...

    def files(self) -> dict[str, bytes]:
        """What `load` reads, by name."""
        ...


@runtime_checkable
class Fits(Protocol):
    """The Config of such a model, which has these two instead of `build`."""

    def fit(self, texts: list[str], labels: np.ndarray, classes: int, seed: int) -> Fitted: ...

    def load(self, folder: Path) -> Fitted: ...


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


def shares(logits: np.ndarray) -> np.ndarray:
    """exp of each row, made to sum to one."""
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)
