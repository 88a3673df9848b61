"""A trained classifier of pictures in Python: predict, evaluate, look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import images
from regard.data.labels import numbers
from regard.errors import UserError
from regard.runs.classifier import Prediction
from regard.runs.run import Run
from regard.tasks.measures import by_class, measures, most_frequent
from regard.tasks.see import probabilities


class ImageRun(Run):
    """A run of `images`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("predict", "evaluate", "look")

    @property
    def labels(self) -> list[str]:
        return self.config["labels"]

    @property
    def text_column(self) -> str | None:
        """Of a table of pictures' names: whichever there is."""
        return None

    @property
    def side(self) -> int:
        return self.settings.data.size

    def probabilities(self, pictures: np.ndarray) -> np.ndarray:
        """p(class) for each picture (n, side, side, 3) of bytes, (n, classes)."""
        return probabilities(self.net, pictures)

    def predict(self, text: str | Path | Sequence[str | Path], say: Callable[[str], Any] = print) -> Any:
        """The class of a picture, or of each of several: files by their names."""
        one = isinstance(text, str | Path)
        made = []
        for path in [text] if isinstance(text, str | Path) else text:
            source = images.files(path)
            if len(source.names) > 1:
                raise UserError(f"{path} holds {len(source.names):,} pictures; name one, or use `regard evaluate`")
            found = images.read(source, source.names, self.side)
            for note in found.notes:
                say(note)
            row = self.probabilities(found.array)[0]
            chances = {label: float(p) for label, p in zip(self.labels, row, strict=True)}
            made.append(Prediction(max(chances, key=chances.__getitem__), chances))
        return made[0] if one else made

    def evaluate(self, data: str | Path, *, say: Callable[[str], Any] = print) -> dict[str, Any]:
        """Accuracy, macro-F1 and loss on a folder with one subfolder a class, and the numbers of each class."""
        from regard.runs.images import classes_of

        found, names = classes_of(data, self.side, say)
        truth, chances = numbers(names, self.labels, str(data)), self.probabilities(found.array)
        measured: dict[str, Any] = {"rows": len(names), **measures(chances, truth)}
        measured["most_frequent"] = most_frequent(truth)
        return {**measured, "classes": by_class(chances, truth, self.labels)}

    def look(
        self,
        text: str | Path,
        *,
        label: str | None = None,
        faithful: bool = True,
        changes: Sequence[Any] = (),
    ) -> Any:
        """A page that shows where the model looks in a picture (its file), asked about its prediction or about another
        class; in a notebook it shows itself. `changes`: what if (regard.runs.changes)."""
        from regard.runs.look_picture import look

        return look(self, text, label=label, faithful=faithful, changes=changes)
