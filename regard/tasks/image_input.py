"""Pictures as a trained run reads them: squeezed to its size, through its backbone, or features like those of its
training."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data import image_source
from regard.data.image_files import ImageArray, ImageSource
from regard.errors import UserError
from regard.models.timm_backbone import seen
from regard.tasks.base_run import Run

logger = logging.getLogger(__name__)


def known(run: Run) -> str | None:
    """The fingerprint of the run's backbone."""
    return (run.config.get("features") or {}).get("backbone")


def read(run: Run, source: ImageSource) -> ImageArray:
    """All pictures of a source."""
    found = image_source.read_images_or_features(source, source.names, run.settings.data.size)
    for note in found.notes:
        logger.info(note)
    array, _ = seen(found.array, run.settings.data, known(run))
    fits(run, array, source.path)
    return replace(found, array=array)


def fits(run: Run, array: np.ndarray, path: str | Path) -> None:
    """Raise where a run that was trained on pictures is given features, or the other way round."""
    given = run.config.get("features")
    if given is None and array.dtype != np.uint8:
        raise UserError(f"this run reads pictures, and {path} holds features of them")
    if given is None:
        return
    shape = tuple(given[key] for key in ("rows", "columns", "width"))
    if array.dtype == np.uint8:
        raise UserError(f"this run reads features of {' x '.join(map(str, shape))}, and {path} holds pictures")
    if array.shape[1:] != shape:
        wanted, got = (" x ".join(map(str, one)) for one in (shape, array.shape[1:]))
        raise UserError(f"this run reads features of {wanted}, and those of {path} are {got}")
