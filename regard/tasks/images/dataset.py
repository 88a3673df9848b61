"""Read the data of `images` and split it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import image_files, image_source
from regard.data.labels import encode_labels
from regard.data.train_valid_split import split_indices
from regard.errors import UserError
from regard.models.timm_backbone import apply_backbone
from regard.tasks.image_input import check_augment
from regard.tasks.images.settings import ImagesSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImagesDataset:
    """Decoded images, or features, of both parts, with class indices."""

    images: np.ndarray
    labels: np.ndarray
    valid_images: np.ndarray
    valid_labels: np.ndarray
    classes: list[str]
    info: dict[str, Any]
    backbone: str | None = None


def read_dataset(settings: ImagesSettings, source: Any) -> ImagesDataset:
    """Decode the images. Without a validation part, a fraction of each class is held out."""
    if source is not None:
        raise UserError("images are read from a folder with one subfolder per class; pass its name")
    data = settings.data
    train, names, backbone = read_labeled_images(data.train, data, None)
    check_augment(train.array, settings.augment)
    classes = sorted(set(names))
    images, labels = train.array, encode_labels(names, classes, data.train)
    train_info = {"name": Path(data.train).name, "fingerprint": train.fingerprint, "notes": train.notes}
    if data.valid is not None:
        valid, valid_names, _ = read_labeled_images(data.valid, data, backbone)
        valid_images, valid_labels = valid.array, encode_labels(valid_names, classes, data.valid)
        valid_info = {"name": Path(data.valid).name, "fingerprint": valid.fingerprint, "rows": len(valid_images)}
    else:
        train_rows, valid_rows = split_indices(names, data.valid_fraction, settings.seed)
        images, valid_images = (image_files.take_rows(train.array, rows) for rows in (train_rows, valid_rows))
        labels, valid_labels = labels[train_rows], labels[valid_rows]
        valid_info = {"rows": len(valid_rows), "split": data.valid_fraction}
        logger.info(f"{len(valid_rows):,} of {len(train):,} images are held out for validation")
    info = {"train": {**train_info, "rows": len(images)}, "valid": valid_info}
    return ImagesDataset(images, labels, valid_images, valid_labels, classes, info, backbone)


def read_labeled_images(
    path: str | Path, data: Any, fingerprint: str | None
) -> tuple[image_files.ImageArray, list[str], str | None]:
    """Read the images of a folder with one subfolder per class.

    Args:
        path: The folder or zip.
        data: Data settings of the run.
        fingerprint: Required fingerprint of the backbone, if there is one.

    Returns:
        The model input (images, or the output of the backbone), the class of each image, and the fingerprint of the
        backbone.
    """
    source, names, labels, notes = image_files.list_images_by_class(path, image_source.open_image_source(path))
    images = image_source.read_images_or_features(source, names, data.size)
    for note in (*notes, *images.notes):
        logger.info(note)
    label_of = dict(zip(names, labels, strict=True))
    array, fingerprint = apply_backbone(images.array, data, fingerprint)
    return replace(images, array=array), [label_of[name] for name in images.names], fingerprint
