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
from regard.explain.build import seen_by
from regard.explain.interventions import Change
from regard.explain.subject import Picture, Subject, must_attend
from regard.inspect import AttentionMap
from regard.inspect.image_gradients import image_gradients
from regard.tasks.classify.objective import chances
from regard.tasks.image_input import read

if TYPE_CHECKING:
    from regard.tasks.classify.look import Look
    from regard.tasks.images.run import ImageRun

AT_ONCE = 32  # pictures
HOPS = "hops"


@dataclass(frozen=True)
class Given:
    """A picture by its name: as the model reads it (height, width, channels), as a page shows it, and what was noted of
    it."""

    name: str
    array: np.ndarray
    address: str | None = None
    notes: tuple[str, ...] = ()


def given(run: Any, path: str | Path) -> Given:
    """One picture from its file, or its features, as the run reads it."""
    source = image_source.open_image_source(path)
    if len(source.names) > 1:
        raise UserError(f"{path} holds {len(source.names):,} pictures, and one is looked at at a time; name one")
    with collect_messages() as notes:
        found = read(run, source)
    address = None
    if not source.features:
        address = image_uri.embedded(image_files.decode_image(source.open(source.names[0]), image_uri.side(run.side)))
    return Given(Path(path).name, np.array(found.array[0]), address, tuple(notes))


class Pictured(Subject):
    """A model with a picture before it. Questions are asked of whole pictures, (b, height, width, channels)."""

    unit = "place"
    speaks = "what all places regard in the mean"

    def __init__(self, net: nn.Module, one: Given, *, name: str, folder: str):
        must_attend(net, name)
        self.net, self.model_name, self.folder, self.one = net, name, folder, one
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
        return self.one.name

    @abstractmethod
    def asked(self, pictures: Tensor) -> Tensor:
        """The answers for pictures, (b, questions)."""

    def without(self, rows: Sequence[np.ndarray]) -> Tensor:
        """The picture with all places erased but those of each row."""
        gone = torch.ones(len(rows), len(self.names), dtype=torch.bool)
        for i, row in enumerate(rows):
            gone[i, torch.from_numpy(row)] = False
        return torch.where(gone[:, self.cell][..., None], self.base, self.pixels)

    def answers(self, rows: Sequence[np.ndarray]) -> Tensor:
        parts = [rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE)]
        return torch.cat([self.asked(self.without(part)) for part in parts])

    def slopes(self, *, rows: int, steps: int) -> Tensor:
        """What each place adds, (questions, places)."""
        found = image_gradients(self.pixels, self.base, self.asked, rows=min(rows, AT_ONCE), steps=steps).flatten(1)
        return found.new_zeros(len(found), len(self.names)).index_add(1, self.cell.flatten(), found)

    def sizes(self) -> dict[str, int]:
        return {}

    def parts(self) -> dict[str, Any]:
        seen = {"picture": self.one.address} if self.one.address else {}
        return {"cells": "grid", "axes": {"grid": {"names": self.names, "grid": list(self.grid), **seen}}}

    def spread(self, columns: str, weights: np.ndarray) -> np.ndarray | None:
        return weights if columns == "grid" else None

    def named(self, found: AttentionMap) -> AttentionMap:
        """What reads the picture as a whole has hops for rows; all else is of places that regard each other."""
        return replace(found, rows=HOPS if found.rows == HOPS else "grid", columns="grid")


class Sorted(Pictured):
    """A classifier of pictures; what is asked is p of one class."""

    def __init__(self, run: ImageRun, one: Given, label: str | None = None):
        super().__init__(run.net, one, name=run.settings.model_name, folder=str(run.folder or ""))
        if label is not None and label not in run.labels:
            raise UserError(f"the run knows no class {label!r}; {did_you_mean(label, run.labels)}")
        self.classes, self.target = run.labels, 0
        self.target = int(self._chances().argmax()) if label is None else run.labels.index(label)
        self.labels = [run.labels[self.target]]

    def asked(self, pictures: Tensor) -> Tensor:
        return chances(self.net(pictures).logits)[:, self.target, None]

    @torch.no_grad()
    def _chances(self) -> Tensor:
        return chances(self.net(self.pixels[None]).logits[0])

    def chances(self) -> dict[str, float]:
        named = {name: float(p) for name, p in zip(self.classes, self._chances(), strict=True)}
        return dict(sorted(named.items(), key=lambda pair: -pair[1]))

    def picture(self, seen: list[AttentionMap]) -> Picture | None:
        pooled = next((m for m in seen if m.rows == HOPS), None)
        if pooled is None:
            return None
        how = "the weights with which the places of the last layer are pooled; each of them has regarded others before"
        return Picture(pooled.weights.mean((0, 1)).double().numpy()[None], how)


def look(
    run: ImageRun,
    path: str | Path,
    *,
    label: str | None = None,
    faithful: bool = True,
    changes: Sequence[Change | str] = (),
) -> Look:
    """`label`: which class is asked about, if not the most probable one; `changes`: what if (regard.explain.interventions), a
    place is hidden as hide:ROW,COLUMN."""
    from regard.tasks.classify.look import Look

    one = given(run, path)
    return Look(seen_by(Sorted(run, one, label), faithful=faithful, heads=faithful, changes=changes, notes=one.notes))
