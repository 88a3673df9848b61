"""TF-IDF of words and word pairs, and logistic regression, by scikit-learn: the baseline that must be beaten.

Where a text may have several labels, there is one regression for each label.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.errors import UserError
from regard.models.linear_text_model import (
    CERTAIN_LOGIT,
    WORD,
    LinearTextModel,
    constant_logit,
    fit_vectorizer,
    one_vs_rest,
    read_files,
)


@dataclass(frozen=True)
class TfidfConfig:
    """Options of TF-IDF and logistic regression.

    Attributes:
        ngrams: Length of the longest n-gram of words.
        min_df: Smallest number of texts that a term must be in.
        inverse_regularization: scikit-learn's C; smaller values regularize more.
    """

    ngrams: int = 2
    min_df: int = 2
    inverse_regularization: float = 10.0

    def fit(
        self, texts: list[str], labels: np.ndarray, num_classes: int, seed: int, class_weights: np.ndarray | None = None
    ) -> TfidfClassifier:
        """Fit a classifier (see `FittableConfig.fit`)."""
        model = LogisticRegression(C=self.inverse_regularization, max_iter=1000, random_state=seed)
        try:
            vectorizer, features = fit_vectorizer(self._build_vectorizer, texts, self.min_df)
            if labels.ndim == 2:
                return TfidfClassifier(vectorizer, *_fit_each_label(model, features, labels, class_weights))
            model.fit(features, labels, None if class_weights is None else class_weights[labels])
        except ValueError as error:  # texts without a word, or invalid options
            raise UserError(f"cannot fit TF-IDF to these texts with {self}: {error}") from None
        rows, intercept = model.coef_, model.intercept_
        if rows.shape[0] == 1:  # with two classes scikit-learn returns the row of the second one only
            rows, intercept = np.vstack((-rows / 2, rows / 2)), np.concatenate((-intercept / 2, intercept / 2))
        weight = np.zeros((num_classes, rows.shape[1]), dtype=np.float32)
        bias = np.full(num_classes, -CERTAIN_LOGIT, dtype=np.float32)  # a class without examples stays improbable
        weight[model.classes_], bias[model.classes_] = rows, intercept
        return TfidfClassifier(vectorizer, weight, bias)

    def load(self, folder: Path) -> TfidfClassifier:
        """Read a saved classifier."""
        terms, (weight, bias, idf) = read_files(folder, "weight", "bias", "idf")
        try:
            vectorizer = self._build_vectorizer(vocabulary=terms)
            vectorizer.idf_ = idf
        except ValueError as error:
            raise UserError(f"{folder} does not hold a complete linear text model: {error}") from None
        return TfidfClassifier(vectorizer, weight, bias)

    def _build_vectorizer(self, **options: Any) -> TfidfVectorizer:
        return TfidfVectorizer(ngram_range=(1, self.ngrams), sublinear_tf=True, token_pattern=WORD, **options)


def _fit_each_label(
    model: LogisticRegression, features: Any, labels: np.ndarray, class_weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Weight (classes, terms) and bias (classes,) of one regression for each label."""
    weight = np.zeros((labels.shape[1], features.shape[1]), np.float32)
    bias = np.zeros(labels.shape[1], np.float32)
    for c in range(labels.shape[1]):
        has_label, text_weights = one_vs_rest(labels, c, class_weights)
        logit = constant_logit(has_label)
        if logit is None:
            model.fit(features, has_label, text_weights)
            weight[c], logit = model.coef_[0], float(np.ravel(model.intercept_)[0])
        bias[c] = logit
    return weight, bias


class TfidfClassifier(LinearTextModel):
    """Logistic regression over TF-IDF features."""

    config_class = TfidfConfig

    def tensors(self) -> dict[str, np.ndarray]:
        return {**super().tensors(), "idf": np.asarray(self.vectorizer.idf_, dtype=np.float64)}
