"""A trained classifier in Python: predict, evaluate, look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from torch import Tensor, nn

from regard.data import documents
from regard.data.read import Table, read
from regard.errors import UserError
from regard.runs.run import Run
from regard.tasks import classify


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True)
class Prediction:
    """The class with the highest probability, and the probability of each."""

    label: str
    probabilities: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {"label": self.label, "probabilities": self.probabilities}


class Classifier(Run):
    """A run of `classify`."""

    verbs = ("predict", "evaluate", "look")

    @property
    def labels(self) -> list[str]:
        return self.config["labels"]

    @property
    def text_column(self) -> str | None:
        """The column that training read, named or guessed."""
        return self.settings.data.text or self._columns[0]

    @property
    def _columns(self) -> list[str | None]:
        return self.config["data"]["train"].get("columns") or [None, None]

    def probabilities(self, texts: Sequence[str], say: Callable[[str], Any] = _silent) -> np.ndarray:
        """p(class) for each text, (n, classes). `say` is told where texts were too long to be read whole."""
        if not len(texts):
            return np.zeros((0, len(self.labels)), np.float32)
        if not isinstance(self.model, nn.Module):
            return self.model.probabilities(list(texts))
        assert self.tokenizer is not None
        found = documents.encode(texts, self.tokenizer, max_tokens=self.settings.data.max_tokens)
        if found.cut:
            say(f"{found.cut:,} of {len(texts):,} texts were cut at {self.settings.data.max_tokens} tokens")
        return classify.probabilities(self.model, found)

    @overload
    def predict(self, text: str, say: Callable[[str], Any] = ...) -> Prediction: ...
    @overload
    def predict(self, text: Sequence[str], say: Callable[[str], Any] = ...) -> list[Prediction]: ...
    def predict(self, text: str | Sequence[str], say: Callable[[str], Any] = _silent) -> Prediction | list[Prediction]:
        """The class of a text, or of each of several."""
        texts = [text] if isinstance(text, str) else list(text)
        said = []
        for row in self.probabilities(texts, say):
            chances = {label: float(p) for label, p in zip(self.labels, row, strict=True)}
            said.append(Prediction(max(chances, key=chances.__getitem__), chances))
        return said[0] if isinstance(text, str) else said

    def evaluate(
        self,
        data: str | Path | Table,
        *,
        text: str | None = None,
        label: str | None = None,
        say: Callable[[str], Any] = print,
    ) -> dict[str, Any]:
        """Accuracy, macro-F1 and loss on a file. Columns are those of training unless named."""
        data_settings = self.settings.data
        table = data
        if not isinstance(table, Table):
            text, label = text or self.text_column, label or data_settings.label or self._columns[1]
            table = read(Path(table), text=text, label=label)
        for note in table.notes:
            say(note)
        truth = numbers(table.labels or [], self.labels, "" if isinstance(data, Table) else str(data))
        return {"rows": len(table.texts), **classify.metrics(self.probabilities(table.texts, say), truth)}

    def look(
        self,
        text: str,
        *,
        label: str | None = None,
        evidence: list[tuple[int, int]] | None = None,
        faithful: bool = True,
    ):
        """A page that shows what the model looks at in this text, asked about its prediction or about another label; in
        a notebook it shows itself."""
        from regard.runs.look import look

        return look(self, text, label=label, evidence=evidence, faithful=faithful)

    def chances(self, logits: Tensor) -> Tensor:
        """p(class) of a model's logits (..., classes)."""
        return classify.chances(logits)


def numbers(labels: list[str], classes: list[str], where: str = "") -> np.ndarray:
    """Labels as class numbers; one that was never seen in training is an error."""
    known = {name: i for i, name in enumerate(classes)}
    strange = sorted({label for label in labels if label not in known})
    if strange:
        shown = ", ".join(map(repr, strange[:5]))
        raise UserError(
            f"{where or 'the data'} has labels that training never saw: {shown}; known are "
            f"{', '.join(map(repr, classes[:10]))}. Mend the labels or train on data that has them"
        )
    return np.array([known[label] for label in labels], np.int64)
