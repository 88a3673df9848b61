"""A trained classifier in Python: predict, evaluate, look."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from torch import Tensor, nn

from regard.data.labels import THRESHOLD
from regard.data.read_table import Table, read_table
from regard.tasks.base_run import Run
from regard.tasks.classify import objective
from regard.tasks.classify.dataset import encode_targets, encode_texts
from regard.tasks.classify.metrics import by_class, measures, most_frequent

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prediction:
    """The class with the highest probability, and the probability of each; where a document may have several labels,
    all that are more probable than not."""

    label: str
    probabilities: dict[str, float]
    labels: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        named = {"label": self.label} if self.labels is None else {"labels": list(self.labels)}
        return {**named, "probabilities": self.probabilities}


class Classifier(Run):
    """A run of `classify`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return "predict", "evaluate", "look"

    @property
    def labels(self) -> list[str]:
        return self.config["labels"]

    @property
    def many(self) -> bool:
        """Whether a document may have several labels."""
        return self.settings.data.multi_label

    @property
    def text_column(self) -> str | None:
        """The column that training read, named or guessed."""
        return self.settings.data.text or self._columns[0]

    @property
    def _columns(self) -> list[str | None]:
        return self.config["data"]["train"].get("columns") or [None, None]

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """p(class) for each text, (n, classes). `say` is told where texts were too long to be read whole."""
        if not len(texts):
            return np.zeros((0, len(self.labels)), np.float32)
        if not isinstance(self.model, nn.Module):
            return self.model.probabilities(list(texts), self.many)
        assert self.tokenizer is not None
        found = encode_texts(texts, self.tokenizer, self.settings)
        if found.num_truncated:
            logger.info(
                f"{found.num_truncated:,} of {len(texts):,} texts were cut at {self.settings.data.max_tokens} tokens"
            )
        return objective.probabilities(self.model, found, many=self.many)

    @overload
    def predict(self, text: str) -> Prediction: ...
    @overload
    def predict(self, text: Sequence[str]) -> list[Prediction]: ...
    def predict(self, text: str | Sequence[str]) -> Prediction | list[Prediction]:
        """The class of a text (or its labels), or of each of several."""
        texts = [text] if isinstance(text, str) else list(text)
        said = []
        for row in self.probabilities(texts):
            chances = {label: float(p) for label, p in zip(self.labels, row, strict=True)}
            given = tuple(name for name, p in chances.items() if p >= THRESHOLD) if self.many else None
            said.append(Prediction(max(chances, key=chances.__getitem__), chances, given))
        return said[0] if isinstance(text, str) else said

    def evaluate(
        self,
        data: str | Path | Table,
        *,
        text: str | None = None,
        label: str | None = None,
    ) -> dict[str, Any]:
        """Accuracy, macro-F1 and loss on a file, and the numbers of each class. Columns are those of training unless
        named."""
        data_settings = self.settings.data
        table = data
        if not isinstance(table, Table):
            text, label = text or self.text_column, label or data_settings.label or self._columns[1]
            table = read_table(Path(table), text=text, label=label, many=self.many)
        for note in table.notes:
            logger.info(note)
        where = "" if isinstance(data, Table) else str(data)
        truth = encode_targets(table.labels or [], self.labels, self.config.get("separator"), where)
        found = self.probabilities(table.texts)
        measured: dict[str, Any] = {"rows": len(table.texts), **measures(found, truth)}
        if not self.many:
            measured["most_frequent"] = most_frequent(truth)
        return {**measured, "classes": by_class(found, truth, self.labels)}

    def look(
        self,
        text: str,
        *,
        label: str | None = None,
        evidence: list[tuple[int, int]] | None = None,
        faithful: bool = True,
        what_if: Sequence[Any] = (),
    ):
        """A page that shows what the model looks at in this text, asked about its prediction or about another label; in
        a notebook it shows itself. `what_if`: interventions (regard.explain.interventions)."""
        from regard.tasks.classify.look import look

        return look(self, text, label=label, evidence=evidence, faithful=faithful, what_if=what_if)

    def chances(self, logits: Tensor) -> Tensor:
        """p(class) of a model's logits (..., classes)."""
        return objective.chances(logits, self.many)
