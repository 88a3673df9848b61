"""Read images as input of a trained run: resized, passed through its backbone, or features like those of its
training data."""

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
from regard.models.timm_backbone import apply_backbone
from regard.tasks.base_run import Run
from regard.tasks.image_settings import AugmentSettings

logger = logging.getLogger(__name__)


def backbone_fingerprint(run: Run) -> str | None:
    """Return the fingerprint of the run's backbone, or None."""
    return (run.config.get("features") or {}).get("backbone")


def read_images(run: Run, source: ImageSource) -> ImageArray:
    """Read all images of a source as input of the run's model."""
    images = image_source.read_images_or_features(source, source.names, run.settings.data.size)
    for note in images.notes:
        logger.info(note)
    array, _ = apply_backbone(images.array, run.settings.data, backbone_fingerprint(run))
    check_input_shape(run, array, source.path)
    return replace(images, array=array)


def check_input_shape(run: Run, array: np.ndarray, path: str | Path) -> None:
    """Raise a UserError if the run expects images and gets features, or vice versa, or features of another shape."""
    features = run.config.get("features")
    if features is None:
        if array.dtype != np.uint8:
            raise UserError(f"this run expects images, but {path} contains features")
        return
    expected = tuple(features[key] for key in ("rows", "columns", "width"))
    shape = " x ".join(map(str, expected))
    if array.dtype == np.uint8:
        raise UserError(f"this run expects features of {shape}, but {path} contains images")
    if array.shape[1:] != expected:
        actual = " x ".join(map(str, array.shape[1:]))
        raise UserError(f"this run expects features of {shape}, but those of {path} are {actual}")


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
