"""NB-SVM: a linear model over terms, each scaled by how much more often it stands in one class than in the others
(Wang & Manning 2012, Baselines and Bigrams: Simple, Good Sentiment and Topic Classification).

    f ∈ {0, 1}^terms                             which words, pairs and triples stand in the document at all
    p = α + Σ_{y=c} f      q = α + Σ_{y≠c} f      r = log((p / ‖p‖₁) / (q / ‖q‖₁))                    eq. 1
    z_c = w_c · (r ∘ f) + b_c                    fitted by logistic regression, one class against the rest

How we differ: logistic regression where the paper has a squared hinge (it gives chances, and is as good), no
interpolation of w with its mean, and several classes as one against the rest, whose chances are made to sum to one
(unless a text may have several labels).
r is multiplied into w once fitted, so that the model is one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from regard.errors import UserError
from regard.models.linear_text_model import SPACELESS, certain, counted, from_files, rest, shares, to_files


@dataclass(frozen=True)
class NBSVMConfig:
    ngrams: int = 3
    min_documents: int = 2
    strength: float = 1.0
    smoothing: float = 1.0

    def fit(
        self, texts: list[str], labels: np.ndarray, classes: int, seed: int, weights: np.ndarray | None = None
    ) -> NBSVM:
        if not 0 < self.smoothing < float("inf"):
            raise UserError(f"nb-svm: smoothing must be a number above 0, and was given {self.smoothing}")
        try:
            vectorizer, features = counted(self._vectorizer, texts, self.min_documents)
            weight = np.zeros((classes, features.shape[1]), np.float32)
            bias = np.full(classes, -30.0, np.float32)  # a class with no example here stays improbable
            many = labels.ndim == 2
            seen = np.arange(classes) if many else np.unique(labels)
            mirrored = len(seen) == 2 and not many  # the one is the other turned round
            for c in map(int, seen[1:] if mirrored else seen):
                inside, weigh = rest(labels, c, weights)
                known = certain(inside)
                if known is None:
                    weight[c], known = self._against_the_rest(features, inside, weigh, seed)
                bias[c] = known
        except ValueError as problem:  # texts without a word, or settings that cannot be
            raise UserError(f"NB-SVM cannot be made of these texts with {self}: {problem}") from None
        if mirrored:
            weight[seen[0]], bias[seen[0]] = -weight[seen[1]], -bias[seen[1]]
        return NBSVM(vectorizer, weight, bias)

    def load(self, folder: Path) -> NBSVM:
        terms, (weight, bias) = from_files(folder, "weight", "bias")
        return NBSVM(self._vectorizer(vocabulary=terms), weight, bias)

    def _against_the_rest(
        self, features: Any, inside: np.ndarray, weigh: np.ndarray | None, seed: int
    ) -> tuple[np.ndarray, float]:
        p, q = (self.smoothing + np.asarray(features[rows].sum(0)).ravel() for rows in (inside, ~inside))
        r = np.log((p / p.sum()) / (q / q.sum()))
        model = LogisticRegression(C=self.strength, solver="liblinear", dual=True, max_iter=1000, random_state=seed)
        model.fit(features.multiply(r).tocsr(), inside, weigh)
        return model.coef_[0] * r, float(np.ravel(model.intercept_)[0])

    def _vectorizer(self, **options: Any) -> CountVectorizer:
        settings: dict[str, Any] = {"ngram_range": (1, self.ngrams), "binary": True, "dtype": np.float32, **options}
        return CountVectorizer(token_pattern=TOKEN, **settings)


TOKEN = rf"(?u)[{SPACELESS}]|[^\W{SPACELESS}]+|[^\w\s]"
"""Marks are terms too: `!` and `?` say something."""


@dataclass
class NBSVM:
    """weight (classes, terms) with r in it, bias (classes,)."""

    config_class = NBSVMConfig

    vectorizer: CountVectorizer
    weight: np.ndarray
    bias: np.ndarray

    def probabilities(self, texts: list[str], many: bool = False) -> np.ndarray:
        features: Any = self.vectorizer.transform(texts)
        logits = features @ self.weight.T + self.bias
        return expit(logits) if many else shares(-np.logaddexp(0, -logits))  # log σ(z): shares of σ(z)

    def params(self) -> int:
        return int(self.weight.size + self.bias.size)

    def files(self) -> dict[str, bytes]:
        return to_files(self.vectorizer, {"weight": self.weight, "bias": self.bias})
