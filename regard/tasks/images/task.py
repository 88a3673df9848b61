"""Runs of `images`: from a folder of pictures for each class to a model that names the class of a picture."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.config.settings import DataSettings, Settings
from regard.data import image_files, image_source, tokenizer, train_valid_split
from regard.data.labels import encode_labels
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.linear_text_model import FittedModel
from regard.models.timm_backbone import seen
from regard.tasks.caption.task import features, how_read, own, unchanged, width
from regard.tasks.image_augmentation import Augment
from regard.tasks.images.objective import MODELS, See
from regard.tasks.images.run import ImageRun

logger = logging.getLogger(__name__)

__all__ = ["MODELS", "own"]

RUN = ImageRun


@dataclass(frozen=True)
class Data(DataSettings):
    """`train` and `valid` are folders (or zips) with one subfolder of pictures, or of features, a class; `size` is the
    side of a picture as it is read; `backbone` a model of timm that reads it, with `weights` from a file, or fetched if
    `download` is so (runs/backbone.py); `batch` counts pictures."""

    train: str = ""
    size: int = 64
    backbone: str | None = None
    weights: str | None = None
    download: bool = False
    batch: int = 64


@dataclass(frozen=True)
class ImageSettings(Settings):
    """`augment` says how pictures are changed in training."""

    augment: Augment = field(default_factory=Augment)
    data: Data = field(default_factory=Data)


SETTINGS = ImageSettings


@dataclass(frozen=True)
class Found:
    """Both parts, decoded."""

    pictures: np.ndarray
    labels: np.ndarray
    valid: np.ndarray
    valid_labels: np.ndarray
    classes: list[str]
    info: dict[str, Any]
    backbone: str | None = None


def default(tree: Mapping[str, Any]) -> str:
    return "attention"


def check(settings: ImageSettings) -> None:
    data = settings.data
    settings.augment.check()
    if not 0 < data.valid_fraction < 1:
        raise UserError(f"data.valid_fraction lies between 0 and 1, and was given {data.valid_fraction}")
    for name, least in (("size", 8), ("batch", 1)):
        if getattr(data, name) < least:
            raise UserError(f"data.{name} must be {least} or more, and was given {getattr(data, name)}")


def check_config(config: Mapping[str, Any]) -> None:
    _ = config["labels"][0], config["settings"]["data"]["size"]


def read(settings: ImageSettings, source: Any) -> Found:
    """Decode the pictures, and set some of each class aside where no validation part is named."""
    if source is not None:
        raise UserError("pictures are read from a folder with one subfolder a class; give its name")
    data = settings.data
    whole, names, backbone = classes_of(data.train, data, None)
    unchanged(whole.array, settings.augment)
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
    return Found(pictures, truth, valid, valid_truth, classes, both, backbone)


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


def facts(found: Found) -> dict[str, Any]:
    count = np.bincount(found.labels, minlength=len(found.classes)).tolist()
    named = {"labels": found.classes, "support": dict(zip(found.classes, count, strict=True))}
    return {**named, **features(found.pictures, found.backbone)}


def words(settings: ImageSettings, found: Found) -> Tokenizer:
    """The names of the classes; pictures have no words."""
    return tokenizer.train_tokenizer([name.replace(" ", "_") or "_" for name in found.classes], "spaces", 1_000_000)


def net(settings: ImageSettings, config: Mapping[str, Any]) -> nn.Module:
    return settings.model.build(len(config["labels"]), width(config))


def task(settings: ImageSettings, found: Found, words: Tokenizer, folder: Path, progress: bool) -> tuple[See, str]:
    data = settings.data
    shape: dict[str, Any] = {"batch": data.batch, "seed": settings.seed, "augment": settings.augment}
    job = See(found.pictures, found.labels, found.valid, found.valid_labels, **shape)
    return (
        job,
        f"{len(found.labels):,} pictures, {len(found.valid_labels):,} for validation, {len(found.classes)} classes",
    )


def fit(settings: ImageSettings, found: Found) -> tuple[FittedModel, dict[str, float]]:
    raise NotImplementedError("every classifier of pictures is trained in steps")


def size(info: Mapping[str, Any]) -> str:
    return f"{info['rows']:,} pictures"


def uses(config: Mapping[str, Any]) -> list[str]:
    return ["regard predict FOLDER PICTURE", "regard look FOLDER PICTURE", "regard evaluate FOLDER PICTURES"]


def about(config: Mapping[str, Any]) -> str:
    labels = ", ".join(f"`{label}`" for label in config["labels"][:20])
    more = f" and {len(config['labels']) - 20} more" if len(config["labels"]) > 20 else ""
    return f"{how_read(config)} Classes: {labels}{more}."
