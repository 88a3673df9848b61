"""A trained text classifier: predict, evaluate, look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from regard.data.labels import THRESHOLD
from regard.data.read_table import Table, read_table
from regard.explain.explainer import require_attention
from regard.tasks.base_run import Run
from regard.tasks.classify.dataset import encode_targets, encode_texts
from regard.tasks.classify.metrics import compute_metrics, most_frequent_accuracy, per_class_metrics
from regard.tasks.classify.objective import predict_probabilities

if TYPE_CHECKING:
    from regard.explain.look_result import Look

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prediction:
    """The prediction for one text.

    Attributes:
        label: The most probable class.
        probabilities: Probability of each class.
        labels: Where a document can have several labels: those with a probability of at least 1/2. Otherwise None.
    """

    label: str
    probabilities: dict[str, float]
    labels: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        label = {"label": self.label} if self.labels is None else {"labels": list(self.labels)}
        return {**label, "probabilities": self.probabilities}


class Classifier(Run):
    """A run of `classify`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return "predict", "evaluate", "look"

    @property
    def labels(self) -> list[str]:
        """The names of the classes."""
        return self.config["labels"]

    @property
    def multi_label(self) -> bool:
        """Whether a document can have several labels."""
        return self.settings.data.multi_label

    @property
    def text_column(self) -> str | None:
        """The text column of the training table."""
        return self.settings.data.text or self._columns[0]

    @property
    def label_column(self) -> str | None:
        """The label column of the training table."""
        return self.settings.data.label or self._columns[1]

    @property
    def _columns(self) -> list[str | None]:
        return self.config["data"]["train"].get("columns") or [None, None]

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """The probability of each class for each text, (texts, classes)."""
        if not len(texts):
            return np.zeros((0, len(self.labels)), np.float32)
        if self.fitted is not None:
            return self.fitted.probabilities(list(texts), self.multi_label)
        documents = encode_texts(texts, self.tokenizer, self.settings)
        if documents.num_truncated:
            logger.info(
                f"{documents.num_truncated:,} of {len(texts):,} texts were truncated to "
                f"{self.settings.data.max_tokens} tokens"
            )
        return predict_probabilities(self.model, documents, multi_label=self.multi_label)

    @overload
    def predict(self, text: str) -> Prediction: ...
    @overload
    def predict(self, text: Sequence[str]) -> list[Prediction]: ...
    def predict(self, text: str | Sequence[str]) -> Prediction | list[Prediction]:
        """Predict the class of a text, or of each of several texts."""
        predictions = []
        for row in self.probabilities([text] if isinstance(text, str) else list(text)):
            by_label = dict(zip(self.labels, map(float, row), strict=True))
            labels = tuple(name for name, p in by_label.items() if p >= THRESHOLD) if self.multi_label else None
            predictions.append(Prediction(max(by_label, key=by_label.__getitem__), by_label, labels))
        return predictions[0] if isinstance(text, str) else predictions

    def evaluate(
        self, data: str | Path | Table, *, text: str | None = None, label: str | None = None
    ) -> dict[str, Any]:
        """Compute the metrics on labelled documents.

        Args:
            data: A table.
            text: Its text column. Default: as in training.
            label: Its label column. Default: as in training.

        Returns:
            Accuracy, macro-F1, loss and others; "classes" has precision, recall and F1 of each class.
        """
        if isinstance(data, Table):
            table, where = data, ""
        else:
            columns: dict[str, Any] = {"text": text or self.text_column, "label": label or self.label_column}
            table, where = read_table(Path(data), **columns, multilabel=self.multi_label), str(data)
        for note in table.notes:
            logger.info(note)
        targets = encode_targets(table.labels or [], self.labels, self.config.get("separator"), where)
        probabilities = self.probabilities(table.texts)
        metrics: dict[str, Any] = {"rows": len(table.texts), **compute_metrics(probabilities, targets)}
        if not self.multi_label:
            metrics["most_frequent"] = most_frequent_accuracy(targets)
        return {**metrics, "classes": per_class_metrics(probabilities, targets, self.labels)}

    def build_evaluation(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """A function that computes loss and accuracy on the first rows of a table, for the importance of heads."""
        require_attention(self.fitted or self.model, self.settings.model_name)
        columns: dict[str, Any] = {"text": self.text_column, "label": self.label_column}
        table = read_table(Path(files[0]), **columns, multilabel=self.multi_label)
        separator = self.config.get("separator")
        targets = encode_targets(table.labels or [], self.labels, separator, str(files[0]))[:rows]
        documents = encode_texts(table.texts[:rows], self.tokenizer, self.settings)

        def evaluate() -> dict[str, float]:
            probabilities = predict_probabilities(self.model, documents, multi_label=self.multi_label)
            metrics = compute_metrics(probabilities, targets)
            return {name: metrics[name] for name in ("loss", "accuracy") if name in metrics}

        return evaluate

    def look(
        self,
        text: str,
        *,
        label: str | None = None,
        evidence: list[tuple[int, int]] | None = None,
        faithful: bool = True,
        what_if: Sequence[Any] = (),
    ) -> Look:
        """Show the attention on a text.

        Args:
            text: The text.
            label: The class to explain. Default: the predicted class.
            evidence: Character spans that are known to decide the label, to compare the attention with.
            faithful: Whether to measure the faithfulness of the attention.
            what_if: Interventions (regard.explain.interventions), such as "hide:film".
        """
        from regard.tasks.classify.look import look

        return look(self, text, label=label, evidence=evidence, faithful=faithful, what_if=what_if)
