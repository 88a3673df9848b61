"""NB-SVM: a linear model over terms, each scaled by how much more frequent it is in one class than in the others
(Wang & Manning 2012, Baselines and Bigrams: Simple, Good Sentiment and Topic Classification).

    f ∈ {0, 1}^terms                             which words, pairs and triples are in the document
    p = α + Σ_{y=c} f      q = α + Σ_{y≠c} f      r = log((p / ‖p‖₁) / (q / ‖q‖₁))                    eq. 1
    z_c = w_c · (r ∘ f) + b_c                    fitted by logistic regression, one class against the rest

Differences from the paper: logistic regression in place of a squared hinge (it gives probabilities and is as good), no
interpolation of w with its mean, and several classes by one-vs-rest, whose probabilities are normalized to sum to one
(unless a text may have several labels). r is multiplied into w after fitting, so that the model is one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from regard.errors import UserError
from regard.models.linear_text_model import (
    CERTAIN_LOGIT,
    SPACELESS,
    LinearTextModel,
    constant_logit,
    fit_vectorizer,
    one_vs_rest,
    read_files,
    softmax,
)

TOKEN = rf"(?u)[{SPACELESS}]|[^\W{SPACELESS}]+|[^\w\s]"
"""Words, and punctuation marks: `!` and `?` are informative."""


@dataclass(frozen=True)
class NBSVMConfig:
    """Options of NB-SVM.

    Attributes:
        ngrams: Length of the longest n-gram of words.
        min_df: Smallest number of texts that a term must be in.
        inverse_regularization: scikit-learn's C; smaller values regularize more.
        smoothing: α, which is added to the counts.
    """

    ngrams: int = 3
    min_df: int = 2
    inverse_regularization: float = 1.0
    smoothing: float = 1.0

    def fit(
        self, texts: list[str], labels: np.ndarray, num_classes: int, seed: int, class_weights: np.ndarray | None = None
    ) -> NBSVM:
        """Fit a classifier (see `FittableConfig.fit`)."""
        if not 0 < self.smoothing < float("inf"):
            raise UserError(f"nb-svm: smoothing must be more than 0, not {self.smoothing}")
        try:
            vectorizer, features = fit_vectorizer(self._build_vectorizer, texts, self.min_df)
            weight = np.zeros((num_classes, features.shape[1]), np.float32)
            bias = np.full(num_classes, -CERTAIN_LOGIT, np.float32)  # a class without examples stays improbable
            multi_label = labels.ndim == 2
            classes = np.arange(num_classes) if multi_label else np.unique(labels)
            is_binary = len(classes) == 2 and not multi_label  # the first class is the negative of the second
            for c in map(int, classes[1:] if is_binary else classes):
                has_class, text_weights = one_vs_rest(labels, c, class_weights)
                logit = constant_logit(has_class)
                if logit is None:
                    weight[c], logit = self._fit_one_class(features, has_class, text_weights, seed)
                bias[c] = logit
        except ValueError as error:  # texts without a word, or invalid options
            raise UserError(f"cannot fit NB-SVM to these texts with {self}: {error}") from None
        if is_binary:
            weight[classes[0]], bias[classes[0]] = -weight[classes[1]], -bias[classes[1]]
        return NBSVM(vectorizer, weight, bias)

    def load(self, folder: Path) -> NBSVM:
        """Read a saved classifier."""
        terms, (weight, bias) = read_files(folder, "weight", "bias")
        return NBSVM(self._build_vectorizer(vocabulary=terms), weight, bias)

    def _fit_one_class(
        self, features: Any, has_class: np.ndarray, text_weights: np.ndarray | None, seed: int
    ) -> tuple[np.ndarray, float]:
        """w ∘ r (terms,) and b of one class against the rest."""
        p, q = (self.smoothing + np.asarray(features[rows].sum(0)).ravel() for rows in (has_class, ~has_class))
        r = np.log((p / p.sum()) / (q / q.sum()))
        model = LogisticRegression(
            C=self.inverse_regularization, solver="liblinear", dual=True, max_iter=1000, random_state=seed
        )
        model.fit(features.multiply(r).tocsr(), has_class, text_weights)
        return model.coef_[0] * r, float(np.ravel(model.intercept_)[0])

    def _build_vectorizer(self, **options: Any) -> CountVectorizer:
        settings: dict[str, Any] = {"ngram_range": (1, self.ngrams), "binary": True, "dtype": np.float32, **options}
        return CountVectorizer(token_pattern=TOKEN, **settings)


class NBSVM(LinearTextModel):
    """Naive Bayes features with logistic regression; r is part of the weight."""

    config_class = NBSVMConfig

    def normalize(self, logits: np.ndarray) -> np.ndarray:
        return softmax(-np.logaddexp(0, -logits))  # log σ(z): normalizes σ(z)
