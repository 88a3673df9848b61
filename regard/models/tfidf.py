"""Bag of words: TF-IDF of words and word pairs, and logistic regression, by scikit-learn. The baseline that must be
beaten. Where a text may have several labels: one regression for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.errors import UserError
from regard.models.linear_text_model import WORD, certain, counted, from_files, rest, shares, to_files


@dataclass(frozen=True)
class TfidfConfig:
    ngrams: int = 2
    min_documents: int = 2
    strength: float = 10.0

    def fit(
        self, texts: list[str], labels: np.ndarray, classes: int, seed: int, weights: np.ndarray | None = None
    ) -> TfidfClassifier:
        model = LogisticRegression(C=self.strength, max_iter=1000, random_state=seed)
        try:
            vectorizer, features = counted(self._vectorizer, texts, self.min_documents)
            if labels.ndim == 2:
                return TfidfClassifier(vectorizer, *_each(model, features, labels, weights))
            model.fit(features, labels, None if weights is None else weights[labels])
        except ValueError as problem:  # texts without a word, or settings that cannot be
            raise UserError(f"a bag of words cannot be made of these texts with {self}: {problem}") from None
        rows, shift = model.coef_, model.intercept_
        if rows.shape[0] == 1:  # two classes: scikit-learn keeps the second one's row only
            rows, shift = np.vstack((-rows / 2, rows / 2)), np.concatenate((-shift / 2, shift / 2))
        weight = np.zeros((classes, rows.shape[1]), dtype=np.float32)
        bias = np.full(classes, -30.0, dtype=np.float32)  # a class with no example here stays improbable
        weight[model.classes_], bias[model.classes_] = rows, shift
        return TfidfClassifier(vectorizer, weight, bias)

    def load(self, folder: Path) -> TfidfClassifier:
        terms, (weight, bias, idf) = from_files(folder, "weight", "bias", "idf")
        try:
            vectorizer = self._vectorizer(vocabulary=terms)
            vectorizer.idf_ = idf
        except ValueError as problem:
            raise UserError(f"{folder} does not hold a whole bag-of-words model: {problem}") from None
        return TfidfClassifier(vectorizer, weight, bias)

    def _vectorizer(self, **options: Any) -> TfidfVectorizer:
        return TfidfVectorizer(ngram_range=(1, self.ngrams), sublinear_tf=True, token_pattern=WORD, **options)


def _each(
    model: LogisticRegression, features: Any, labels: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Weight (classes, terms) and bias (classes,), class by class against the rest."""
    weight = np.zeros((labels.shape[1], features.shape[1]), np.float32)
    bias = np.zeros(labels.shape[1], np.float32)
    for c in range(labels.shape[1]):
        inside, weigh = rest(labels, c, weights)
        known = certain(inside)
        if known is None:
            model.fit(features, inside, weigh)
            weight[c], known = model.coef_[0], float(np.ravel(model.intercept_)[0])
        bias[c] = known
    return weight, bias


@dataclass
class TfidfClassifier:
    """weight (classes, terms), bias (classes,)."""

    config_class = TfidfConfig

    vectorizer: TfidfVectorizer
    weight: np.ndarray
    bias: np.ndarray

    def probabilities(self, texts: list[str], many: bool = False) -> np.ndarray:
        features: Any = self.vectorizer.transform(texts)
        logits = features @ self.weight.T + self.bias
        return expit(logits) if many else shares(logits)

    def params(self) -> int:
        return int(self.weight.size + self.bias.size)

    def files(self) -> dict[str, bytes]:
        idf = np.asarray(self.vectorizer.idf_, dtype=np.float64)
        return to_files(self.vectorizer, {"weight": self.weight, "bias": self.bias, "idf": idf})
