"""A trained image classifier: predict, evaluate, look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from regard.config.messages import muted
from regard.data import image_source
from regard.data.labels import encode_labels
from regard.errors import UserError
from regard.tasks.base_run import Run
from regard.tasks.classify.metrics import compute_metrics, most_frequent_accuracy, per_class_metrics
from regard.tasks.classify.run import Prediction
from regard.tasks.image_input import backbone_fingerprint, check_input_shape, read_images
from regard.tasks.images.objective import predict_probabilities

if TYPE_CHECKING:
    from regard.explain.look_result import Look


class ImageClassifierRun(Run):
    """A run of `images`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("predict", "evaluate", "look")

    @property
    def labels(self) -> list[str]:
        """The names of the classes."""
        return self.config["labels"]

    @property
    def text_column(self) -> str | None:
        """The column with file names, in a table of images: guessed."""
        return None

    @property
    def side(self) -> int:
        """Side of the images in pixels."""
        return self.settings.data.size

    def probabilities(self, images: np.ndarray) -> np.ndarray:
        """Return the probability of each class for each image: (n, side, side, 3) uint8 -> (n, classes)."""
        return predict_probabilities(self.model, images)

    @overload
    def predict(self, text: str | Path) -> Prediction: ...
    @overload
    def predict(self, text: Sequence[str | Path]) -> list[Prediction]: ...
    def predict(self, text: str | Path | Sequence[str | Path]) -> Prediction | list[Prediction]:
        """Predict the class of an image file, or of several."""
        paths = [text] if isinstance(text, str | Path) else text
        predictions = [self._predict_file(path) for path in paths]
        return predictions[0] if isinstance(text, str | Path) else predictions

    def _predict_file(self, path: str | Path) -> Prediction:
        source = image_source.open_image_source(path)
        if len(source.names) > 1:
            raise UserError(f"{path} contains {len(source.names):,} images; choose one, or use `regard evaluate`")
        row = self.probabilities(read_images(self, source).array)[0]
        probabilities = {label: float(p) for label, p in zip(self.labels, row, strict=True)}
        return Prediction(max(probabilities, key=probabilities.__getitem__), probabilities)

    def evaluate(self, data: str | Path) -> dict[str, Any]:
        """Return accuracy, macro-F1 and loss on a folder with one subfolder per class, and metrics of each class."""
        images, labels = self._read_labeled(data)
        probabilities = self.probabilities(images)
        return {
            "rows": len(labels),
            **compute_metrics(probabilities, labels),
            "most_frequent": most_frequent_accuracy(labels),
            "classes": per_class_metrics(probabilities, labels, self.labels),
        }

    def _read_labeled(self, data: str | Path) -> tuple[np.ndarray, np.ndarray]:
        from regard.tasks.images.dataset import read_labeled_images

        images, names, _ = read_labeled_images(data, self.settings.data, backbone_fingerprint(self))
        check_input_shape(self, images.array, data)
        return images.array, encode_labels(names, self.labels, str(data))

    def build_evaluation(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """Return a function that measures loss and accuracy on at most `rows` images of all classes."""
        with muted():
            images, labels = self._read_labeled(files[0])
        chosen = np.unique(np.linspace(0, len(labels) - 1, min(rows, len(labels))).round().astype(int))
        images, labels = images[chosen], labels[chosen]

        def measure() -> dict[str, float]:
            metrics = compute_metrics(self.probabilities(images), labels)
            return {name: float(metrics[name]) for name in ("loss", "accuracy")}

        return measure

    def look(
        self,
        text: str | Path,
        *,
        label: str | None = None,
        faithful: bool = True,
        what_if: Sequence[Any] = (),
    ) -> Look:
        """Return a page with the attention over an image.

        Args:
            text: The image file.
            label: The class to explain. Default: the predicted class.
            faithful: Whether to measure faithfulness.
            what_if: Interventions (regard.explain.interventions).
        """
        from regard.tasks.images.look import look

        return look(self, text, label=label, faithful=faithful, what_if=what_if)
