"""A trained classifier of pictures in Python: predict, evaluate, look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.messages import muted
from regard.data import image_source
from regard.data.labels import encode_labels
from regard.errors import UserError
from regard.tasks.base_run import Run
from regard.tasks.classify.metrics import per_class_metrics, compute_metrics, most_frequent_accuracy
from regard.tasks.classify.run import Prediction
from regard.tasks.image_input import fits, known, read
from regard.tasks.images.objective import probabilities


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
        return probabilities(self.model, pictures)

    def predict(self, text: str | Path | Sequence[str | Path]) -> Any:
        """The class of a picture, or of each of several: files by their names."""
        one = isinstance(text, str | Path)
        made = []
        for path in [text] if isinstance(text, str | Path) else text:
            source = image_source.open_image_source(path)
            if len(source.names) > 1:
                raise UserError(f"{path} holds {len(source.names):,} pictures; name one, or use `regard evaluate`")
            row = self.probabilities(read(self, source).array)[0]
            chances = {label: float(p) for label, p in zip(self.labels, row, strict=True)}
            made.append(Prediction(max(chances, key=chances.__getitem__), chances))
        return made[0] if one else made

    def evaluate(self, data: str | Path) -> dict[str, Any]:
        """Accuracy, macro-F1 and loss on a folder with one subfolder a class, and the numbers of each class."""
        from regard.tasks.images.dataset import classes_of

        found, names, _ = classes_of(data, self.settings.data, known(self))
        fits(self, found.array, data)
        truth, chances = encode_labels(names, self.labels, str(data)), self.probabilities(found.array)
        measured: dict[str, Any] = {"rows": len(names), **compute_metrics(chances, truth)}
        measured["most_frequent"] = most_frequent_accuracy(truth)
        return {**measured, "classes": per_class_metrics(chances, truth, self.labels)}

    def measuring(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """What `regard heads` asks again and again: loss and accuracy on at most so many pictures, of all classes."""
        from regard.tasks.images.dataset import classes_of

        with muted():
            found, names, _ = classes_of(files[0], self.settings.data, known(self))
        fits(self, found.array, files[0])
        chosen = np.unique(np.linspace(0, len(names) - 1, min(rows, len(names))).round().astype(int))
        pictures, truth = found.array[chosen], encode_labels([names[i] for i in chosen], self.labels, str(files[0]))

        def asked() -> dict[str, float]:
            said = compute_metrics(self.probabilities(pictures), truth)
            return {name: float(said[name]) for name in ("loss", "accuracy")}

        return asked

    def look(
        self,
        text: str | Path,
        *,
        label: str | None = None,
        faithful: bool = True,
        what_if: Sequence[Any] = (),
    ) -> Any:
        """A page that shows where the model looks in a picture (its file), asked about its prediction or about another
        class; in a notebook it shows itself. `what_if`: interventions (regard.explain.interventions)."""
        from regard.tasks.images.look import look

        return look(self, text, label=label, faithful=faithful, what_if=what_if)
