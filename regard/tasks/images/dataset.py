"""Read the data of `images` and split it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import image_files, image_source, train_valid_split
from regard.data.labels import encode_labels
from regard.errors import UserError
from regard.models.timm_backbone import seen
from regard.tasks.image_input import check_augment
from regard.tasks.images.settings import ImagesSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImagesDataset:
    """Both parts, decoded."""

    pictures: np.ndarray
    labels: np.ndarray
    valid: np.ndarray
    valid_labels: np.ndarray
    classes: list[str]
    info: dict[str, Any]
    backbone: str | None = None


def read_dataset(settings: ImagesSettings, source: Any) -> ImagesDataset:
    """Decode the pictures, and set some of each class aside where no validation part is named."""
    if source is not None:
        raise UserError("pictures are read from a folder with one subfolder a class; give its name")
    data = settings.data
    whole, names, backbone = classes_of(data.train, data, None)
    check_augment(whole.array, settings.augment)
    classes = sorted(set(names))
    truth = encode_labels(names, classes, data.train)
    info: dict[str, Any] = {"name": Path(data.train).name, "fingerprint": whole.fingerprint, "notes": whole.notes}
    if data.valid is not None:
        other, labels, _ = classes_of(data.valid, data, backbone)
        valid, valid_truth = other.array, encode_labels(labels, classes, data.valid)
        pictures = whole.array
        about = {"name": Path(data.valid).name, "fingerprint": other.fingerprint, "rows": len(valid)}
    else:
        kept, aside = train_valid_split.split_indices(names, data.valid_fraction, settings.seed)
        pictures, valid = image_files.take_rows(whole.array, kept), image_files.take_rows(whole.array, aside)
        truth, valid_truth = truth[kept], truth[aside]
        about = {"rows": len(aside), "split": data.valid_fraction}
        logger.info(f"{len(aside):,} of {len(whole):,} pictures set aside for validation")
    both = {"train": {**info, "rows": len(pictures)}, "valid": about}
    return ImagesDataset(pictures, truth, valid, valid_truth, classes, both, backbone)


def classes_of(path: str | Path, data: Any, known: str | None) -> tuple[image_files.ImageArray, list[str], str | None]:
    """Pictures that can be read, as the model reads them by the settings of its data; the class of each; and the
    fingerprint of the backbone, which must be the one that is known."""
    source, names, labels, notes = image_files.list_images_by_class(path, image_source.open_image_source(path))
    found = image_source.read_images_or_features(source, names, data.size)
    for note in (*notes, *found.notes):
        logger.info(note)
    by_name = dict(zip(names, labels, strict=True))
    array, fingerprint = seen(found.array, data, known)
    return replace(found, array=array), [by_name[name] for name in found.names], fingerprint
