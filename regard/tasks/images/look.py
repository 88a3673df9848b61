"""Look into a model of pictures: where its attention went over the grid of a picture, and whether erasing what it
attended to moves what it says.

A place is a cell of the grid that the model makes of the picture. What is erased takes the mean colour of the picture.
The tokens of the page are the places, written row,column.
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
from regard.tasks.image_input import read

if TYPE_CHECKING:
    from regard.explain.look_result import Look
    from regard.tasks.images.run import ImageRun

AT_ONCE = 32  # pictures
HOPS = "hops"


@dataclass(frozen=True)
class ImageInput:
    """A picture by its name: as the model reads it (height, width, channels), as a page shows it, and what was noted of
    it."""

    name: str
    array: np.ndarray
    address: str | None = None
    notes: tuple[str, ...] = ()


def read_image_input(run: Any, path: str | Path) -> ImageInput:
    """One picture from its file, or its features, as the run reads it."""
    source = image_source.open_image_source(path)
    if len(source.names) > 1:
        raise UserError(f"{path} holds {len(source.names):,} pictures, and one is looked at at a time; name one")
    with collect_messages() as notes:
        found = read(run, source)
    address = None
    if not source.features:
        address = image_uri.to_data_uri(
            image_files.decode_image(source.open(source.names[0]), image_uri.display_size(run.side))
        )
    return ImageInput(Path(path).name, np.array(found.array[0]), address, tuple(notes))


class ImageExplainer(Explainer):
    """A model with a picture before it. Questions are asked of whole pictures, (b, height, width, channels)."""

    unit = "cell"
    row_description = "what all places regard in the mean"

    def __init__(self, net: nn.Module, one: ImageInput, *, name: str, folder: str):
        require_attention(net, name)
        self.model, self.model_name, self.folder, self.image = net, name, folder, one
        self.pixels = torch.from_numpy(np.array(one.array)).float()
        self.base = self.pixels.mean((0, 1), keepdim=True).expand_as(self.pixels)
        with torch.no_grad():
            self.grid = tuple(net.image_encoder(self.pixels[None]).shape[1:3])  # type: ignore[operator]
        height, width = self.pixels.shape[:2]
        down, across = (
            torch.arange(size) * cells // size for size, cells in zip((height, width), self.grid, strict=True)
        )
        self.cell = down[:, None] * self.grid[1] + across  # (height, width): the place of each point
        lines = [[f"{r + 1},{c + 1}" for c in range(self.grid[1])] for r in range(self.grid[0])]
        self.names = [name for line in lines for name in line]
        self.text, self.tokens, at = "\n".join(map(" ".join, lines)), [], 0
        for number, called in enumerate(self.names):
            span = {"start": at, "end": at + len(called)}
            self.tokens.append({"text": called, **span, "word": number, "special": False})
            at += len(called) + 1

    @property
    def title(self) -> str:
        return self.image.name

    @abstractmethod
    def image_scores(self, pictures: Tensor) -> Tensor:
        """The answers for pictures, (b, questions)."""

    def erase(self, rows: Sequence[np.ndarray]) -> Tensor:
        """The picture with all places erased but those of each row."""
        gone = torch.ones(len(rows), len(self.names), dtype=torch.bool)
        for i, row in enumerate(rows):
            gone[i, torch.from_numpy(row)] = False
        return torch.where(gone[:, self.cell][..., None], self.base, self.pixels)

    def scores(self, token_indices: Sequence[np.ndarray]) -> Tensor:
        parts = [token_indices[first : first + AT_ONCE] for first in range(0, len(token_indices), AT_ONCE)]
        return torch.cat([self.image_scores(self.erase(part)) for part in parts])

    def gradients(self, *, batch_size: int, steps: int) -> Tensor:
        """What each place adds, (questions, places)."""
        found = image_gradients(
            self.pixels, self.base, self.image_scores, batch_size=min(batch_size, AT_ONCE), steps=steps
        ).flatten(1)
        return found.new_zeros(len(found), len(self.names)).index_add(1, self.cell.flatten(), found)

    def axis_sizes(self) -> dict[str, int]:
        return {}

    def page_fields(self) -> dict[str, Any]:
        seen = {"image": self.image.address} if self.image.address else {}
        return {"image_axis": "grid", "axes": {"grid": {"names": self.names, "grid": list(self.grid), **seen}}}

    def token_weights(self, axis: str, weights: np.ndarray) -> np.ndarray | None:
        return weights if axis == "grid" else None

    def label_axes(self, attention_map: AttentionMap) -> AttentionMap:
        """What reads the picture as a whole has hops for rows; all else is of places that regard each other."""
        return replace(attention_map, rows=HOPS if attention_map.rows == HOPS else "grid", columns="grid")


class ImageClassifierExplainer(ImageExplainer):
    """A classifier of pictures; what is asked is p of one class."""

    def __init__(self, run: ImageRun, one: ImageInput, label: str | None = None):
        super().__init__(run.model, one, name=run.settings.model_name, folder=str(run.folder or ""))
        if label is not None and label not in run.labels:
            raise UserError(f"the run knows no class {label!r}; {did_you_mean(label, run.labels)}")
        self.classes, self.target = run.labels, 0
        self.target = int(self._chances().argmax()) if label is None else run.labels.index(label)
        self.targets = [run.labels[self.target]]

    def image_scores(self, pictures: Tensor) -> Tensor:
        return to_probabilities(self.model(pictures).logits)[:, self.target, None]

    @torch.no_grad()
    def _chances(self) -> Tensor:
        return to_probabilities(self.model(self.pixels[None]).logits[0])

    def probabilities(self) -> dict[str, float]:
        named = {name: float(p) for name, p in zip(self.classes, self._chances(), strict=True)}
        return dict(sorted(named.items(), key=lambda pair: -pair[1]))

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        pooled = next((m for m in maps if m.rows == HOPS), None)
        if pooled is None:
            return None
        how = "the weights with which the places of the last layer are pooled; each of them has regarded others before"
        return Attribution(pooled.weights.mean((0, 1)).double().numpy()[None], how)


def look(
    run: ImageRun,
    path: str | Path,
    *,
    label: str | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
) -> Look:
    """`label`: which class is asked about, if not the most probable one; `what_if`: interventions (regard.explain.interventions), a
    place is hidden as hide:ROW,COLUMN."""
    image = read_image_input(run, path)
    explainer = ImageClassifierExplainer(run, image, label)
    return build_look(explainer, faithful=faithful, interventions=what_if, notes=image.notes)
