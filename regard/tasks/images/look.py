"""Look into an image model: its attention over the grid of an image, and whether erasing attended cells changes its
output.

A cell is one position of the grid that the image encoder makes of the image. Erased cells get the mean color of the
image. The tokens of the page are the cells, written row,column.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.config.messages import collect_messages
from regard.data import image_files, image_source
from regard.errors import UserError, did_you_mean
from regard.explain import image_uri
from regard.explain.build import build_look
from regard.explain.explainer import Attribution, Explainer, require_attention
from regard.explain.interventions import Intervention
from regard.inspect import AttentionMap
from regard.inspect.image_gradients import image_gradients
from regard.tasks.classify.objective import to_probabilities
from regard.tasks.image_input import read_images

if TYPE_CHECKING:
    from regard.explain.look_result import Look
    from regard.tasks.images.run import ImageClassifierRun

BATCH_SIZE = 32
HOPS = "hops"


@dataclass(frozen=True)
class ImageInput:
    """An image to explain.

    Attributes:
        name: File name.
        array: Model input, (height, width, channels).
        address: Data URI of the image for the page; None for features.
        notes: Messages about the conversion.
    """

    name: str
    array: np.ndarray
    address: str | None = None
    notes: tuple[str, ...] = ()


def read_image_input(run: Any, path: str | Path) -> ImageInput:
    """Read one image file, or its features, as input of the run's model."""
    source = image_source.open_image_source(path)
    if len(source.names) > 1:
        raise UserError(f"{path} contains {len(source.names):,} images; look takes one image at a time")
    with collect_messages() as notes:
        images = read_images(run, source)
    address = None
    if not source.features:
        address = image_uri.to_data_uri(
            image_files.decode_image(source.open(source.names[0]), image_uri.display_size(run.side))
        )
    return ImageInput(Path(path).name, np.array(images.array[0]), address, tuple(notes))


class ImageExplainer(Explainer):
    """Explains a model on one image. Scores are computed for batches of images, (b, height, width, channels)."""

    unit = "cell"
    row_description = "mean attention of all cells"

    def __init__(self, model: nn.Module, image: ImageInput, *, name: str, folder: str):
        require_attention(model, name)
        self.model, self.model_name, self.folder, self.image = model, name, folder, image
        self.pixels = torch.from_numpy(np.array(image.array)).float()
        self.baseline = self.pixels.mean((0, 1), keepdim=True).expand_as(self.pixels)
        with torch.no_grad():
            self.grid = tuple(model.image_encoder(self.pixels[None]).shape[1:3])  # type: ignore[operator]
        height, width = self.pixels.shape[:2]
        cell_rows, cell_columns = (
            torch.arange(size) * cells // size for size, cells in zip((height, width), self.grid, strict=True)
        )
        self.cell_of_pixel = cell_rows[:, None] * self.grid[1] + cell_columns  # (height, width)
        lines = [[f"{r + 1},{c + 1}" for c in range(self.grid[1])] for r in range(self.grid[0])]
        self.names = [name for line in lines for name in line]
        self.text, self.tokens, start = "\n".join(map(" ".join, lines)), [], 0
        for number, cell_name in enumerate(self.names):
            span = {"start": start, "end": start + len(cell_name)}
            self.tokens.append({"text": cell_name, **span, "word": number, "special": False})
            start += len(cell_name) + 1

    @property
    def title(self) -> str:
        return self.image.name

    @abstractmethod
    def image_scores(self, images: Tensor) -> Tensor:
        """Return the score of each target for each image, (b, targets)."""

    def erase(self, rows: Sequence[np.ndarray]) -> Tensor:
        """Return one image per row, with all cells erased except those of the row."""
        is_erased = torch.ones(len(rows), len(self.names), dtype=torch.bool)
        for i, row in enumerate(rows):
            is_erased[i, torch.from_numpy(row)] = False
        return torch.where(is_erased[:, self.cell_of_pixel][..., None], self.baseline, self.pixels)

    def scores(self, token_indices: Sequence[np.ndarray]) -> Tensor:
        batches = [token_indices[i : i + BATCH_SIZE] for i in range(0, len(token_indices), BATCH_SIZE)]
        return torch.cat([self.image_scores(self.erase(batch)) for batch in batches])

    def gradients(self, *, batch_size: int, steps: int) -> Tensor:
        """Return integrated gradients, summed over the pixels of each cell, (targets, cells)."""
        attributions = image_gradients(
            self.pixels, self.baseline, self.image_scores, batch_size=min(batch_size, BATCH_SIZE), steps=steps
        ).flatten(1)
        cells = attributions.new_zeros(len(attributions), len(self.names))
        return cells.index_add(1, self.cell_of_pixel.flatten(), attributions)

    def axis_sizes(self) -> dict[str, int]:
        return {}

    def page_fields(self) -> dict[str, Any]:
        image = {"image": self.image.address} if self.image.address else {}
        return {"image_axis": "grid", "axes": {"grid": {"names": self.names, "grid": list(self.grid), **image}}}

    def token_weights(self, axis: str, weights: np.ndarray) -> np.ndarray | None:
        return weights if axis == "grid" else None

    def label_axes(self, attention_map: AttentionMap) -> AttentionMap:
        """Rows are hops where attention pools the image, and grid cells elsewhere."""
        return replace(attention_map, rows=HOPS if attention_map.rows == HOPS else "grid", columns="grid")


class ImageClassifierExplainer(ImageExplainer):
    """Explains the probability of one class."""

    def __init__(self, run: ImageClassifierRun, image: ImageInput, label: str | None = None):
        super().__init__(run.model, image, name=run.settings.model_name, folder=str(run.folder or ""))
        if label is not None and label not in run.labels:
            raise UserError(f"unknown class {label!r}; {did_you_mean(label, run.labels)}")
        self.classes, self.target = run.labels, 0
        self.target = int(self._predict().argmax()) if label is None else run.labels.index(label)
        self.targets = [run.labels[self.target]]

    def image_scores(self, images: Tensor) -> Tensor:
        return to_probabilities(self.model(images).logits)[:, self.target, None]

    @torch.no_grad()
    def _predict(self) -> Tensor:
        return to_probabilities(self.model(self.pixels[None]).logits[0])

    def probabilities(self) -> dict[str, float]:
        probabilities = {name: float(p) for name, p in zip(self.classes, self._predict(), strict=True)}
        return dict(sorted(probabilities.items(), key=lambda pair: -pair[1]))

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        pooled = next((m for m in maps if m.rows == HOPS), None)
        if pooled is None:
            return None
        description = "pooling weights of the last layer; each cell has attended to others in earlier layers"
        return Attribution(pooled.weights.mean((0, 1)).double().numpy()[None], description)


def look(
    run: ImageClassifierRun,
    path: str | Path,
    *,
    label: str | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
) -> Look:
    """Build the page of an image. See `ImageClassifierRun.look`; hide:ROW,COLUMN hides a cell."""
    image = read_image_input(run, path)
    explainer = ImageClassifierExplainer(run, image, label)
    return build_look(explainer, faithful=faithful, interventions=what_if, notes=image.notes)
