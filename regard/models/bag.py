"""Bag of words: TF-IDF of words and word pairs, and logistic regression, by scikit-learn. The baseline that must be
beaten."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.errors import UserError
from regard.models.fitted import counted, from_files, shares, to_files


@dataclass(frozen=True)
class Config:
    ngrams: int = 2
    min_documents: int = 2
    strength: float = 10.0

    def fit(self, texts: list[str], labels: np.ndarray, classes: int, seed: int) -> BagOfWords:
        try:
            vectorizer, features = counted(self._vectorizer, texts, self.min_documents)
            model = LogisticRegression(C=self.strength, max_iter=1000, random_state=seed).fit(features, labels)
        except ValueError as problem:  # texts without a word, or settings that cannot be
            raise UserError(f"a bag of words cannot be made of these texts with {self}: {problem}") from None
        rows, shift = model.coef_, model.intercept_
        if rows.shape[0] == 1:  # two classes: scikit-learn keeps the second one's row only
            rows, shift = np.vstack((-rows / 2, rows / 2)), np.concatenate((-shift / 2, shift / 2))
        weight = np.zeros((classes, rows.shape[1]), dtype=np.float32)
        bias = np.full(classes, -30.0, dtype=np.float32)  # a class with no example here stays improbable
        weight[model.classes_], bias[model.classes_] = rows, shift
        return BagOfWords(vectorizer, weight, bias)

    def load(self, folder: Path) -> BagOfWords:
        terms, (weight, bias, idf) = from_files(folder, "weight", "bias", "idf")
        try:
            vectorizer = self._vectorizer(vocabulary=terms)
            vectorizer.idf_ = idf
        except ValueError as problem:
            raise UserError(f"{folder} does not hold a whole bag-of-words model: {problem}") from None
        return BagOfWords(vectorizer, weight, bias)

    def _vectorizer(self, **options: Any) -> TfidfVectorizer:
        return TfidfVectorizer(ngram_range=(1, self.ngrams), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b", **options)


@dataclass
class BagOfWords:
    """weight (classes, terms), bias (classes,)."""

    vectorizer: TfidfVectorizer
    weight: np.ndarray
    bias: np.ndarray

    def probabilities(self, texts: list[str]) -> np.ndarray:
        features: Any = self.vectorizer.transform(texts)
        return shares(features @ self.weight.T + self.bias)

    def params(self) -> int:
        return int(self.weight.size + self.bias.size)

    def files(self) -> dict[str, bytes]:
        idf = np.asarray(self.vectorizer.idf_, dtype=np.float64)
        return to_files(self.vectorizer, {"weight": self.weight, "bias": self.bias, "idf": idf})
