"""Bag of words: TF-IDF of words and word pairs, and logistic regression, by scikit-learn. The baseline that must be
beaten.

Saved as plain numbers (safetensors) and a list of terms (JSON): no pickle.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.errors import UserError


@dataclass(frozen=True)
class Config:
    ngrams: int = 2
    min_documents: int = 2
    strength: float = 10.0


class BagOfWords:
    def __init__(self, config: Config):
        self.config = config
        self.vectorizer = self._vectorizer()
        self.weight = np.zeros((0, 0), dtype=np.float32)
        self.bias = np.zeros(0, dtype=np.float32)

    def fit(self, texts: list[str], labels: np.ndarray, classes: int, seed: int) -> None:
        try:
            features = self._learn(texts)
            model = LogisticRegression(C=self.config.strength, max_iter=1000, random_state=seed).fit(features, labels)
        except ValueError as problem:  # texts without a word, or settings that cannot be
            raise UserError(f"a bag of words cannot be made of these texts with {self.config}: {problem}") from None
        weight, bias = model.coef_, model.intercept_
        if weight.shape[0] == 1:  # two classes: scikit-learn keeps the second one's row only
            weight, bias = np.vstack((-weight / 2, weight / 2)), np.concatenate((-bias / 2, bias / 2))
        self.weight = np.zeros((classes, weight.shape[1]), dtype=np.float32)
        self.bias = np.full(classes, -30.0, dtype=np.float32)  # a class with no example here stays improbable
        self.weight[model.classes_], self.bias[model.classes_] = weight, bias

    def probabilities(self, texts: list[str]) -> np.ndarray:
        features: Any = self.vectorizer.transform(texts)
        logits = features @ self.weight.T + self.bias
        odds = np.exp(logits - logits.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)

    def params(self) -> int:
        return int(self.weight.size + self.bias.size)

    def files(self) -> dict[str, bytes]:
        """What `load` reads, by name."""
        idf = np.asarray(self.vectorizer.idf_, dtype=np.float64)
        terms = sorted(self.vectorizer.vocabulary_, key=self.vectorizer.vocabulary_.__getitem__)
        return {
            "model.safetensors": save({"weight": self.weight, "bias": self.bias, "idf": idf}),
            "tokenizer.json": json.dumps({"kind": "ngrams", "terms": terms}, ensure_ascii=False).encode(),
        }

    @classmethod
    def load(cls, folder: Path, config: Config) -> BagOfWords:
        model = cls(config)
        try:
            tensors = load_file(folder / "model.safetensors")
            terms = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["terms"]
            model.weight, model.bias = tensors["weight"], tensors["bias"]
            model.vectorizer = model._vectorizer(vocabulary=terms)
            model.vectorizer.idf_ = tensors["idf"]
        except (OSError, ValueError, KeyError, SafetensorError) as problem:
            raise UserError(f"{folder} does not hold a whole bag-of-words model: {problem}") from None
        return model

    def _learn(self, texts: list[str]) -> Any:
        try:
            return self.vectorizer.fit_transform(texts)
        except ValueError:  # every term in fewer documents than asked for, as with very small files
            self.vectorizer = self._vectorizer(min_df=1)
            return self.vectorizer.fit_transform(texts)

    def _vectorizer(self, **options: Any) -> TfidfVectorizer:
        settings: dict[str, Any] = {"min_df": self.config.min_documents, **options}
        return TfidfVectorizer(
            ngram_range=(1, self.config.ngrams), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b", **settings
        )
