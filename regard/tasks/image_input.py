"""Pictures as a trained run reads them: squeezed to its size, through its backbone, or features like those of its
training."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import image_source
from regard.data.image_files import ImageArray, ImageSource
from regard.errors import UserError
from regard.models.timm_backbone import seen
from regard.tasks.base_run import Run
from regard.tasks.image_settings import AugmentSettings

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


def check_augment(array: np.ndarray, augment: AugmentSettings) -> None:
    """Raise UserError if features are to be augmented, which only images can be."""
    if array.dtype != np.uint8 and augment != AugmentSettings():
        raise UserError("augment changes images, but the data are features of images; leave augment out")


def feature_entries(array: np.ndarray, backbone: str | None) -> dict[str, Any]:
    """The entry "features" of config.json: the shape of features and the fingerprint of the backbone. {} for images."""
    shape = dict(zip(("rows", "columns", "width"), map(int, array.shape[1:]), strict=True))
    return {} if array.dtype == np.uint8 else {"features": {**shape, "backbone": backbone}}


def feature_width(config: Mapping[str, Any]) -> int | None:
    """The width of the features that a run reads; None if it reads images."""
    return config["features"]["width"] if "features" in config else None


def describe_input(config: Mapping[str, Any]) -> str:
    """A sentence about the input of a run, for its model card."""
    side, features = config["settings"]["data"]["size"], config.get("features")
    if features is None:
        return f"Images are resized to {side} x {side}."
    shape = f"{features['rows']} x {features['columns']} x {features['width']}"
    backbone = config["settings"]["data"].get("backbone")
    if backbone is None:
        return f"It reads features of {shape} instead of images."
    return f"Images are resized to {side} x {side}; {backbone} computes features of {shape}."
