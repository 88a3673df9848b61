"""Read the data of `caption` and split it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import caption_files
from regard.data.caption_files import CaptionedImages
from regard.data.tokenizer import EOS, Tokenizer
from regard.errors import UserError
from regard.models.timm_backbone import seen
from regard.tasks.caption.settings import CaptionSettings
from regard.tasks.image_input import check_augment

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CaptionDataset:
    """Both parts, decoded."""

    train: CaptionedImages
    valid: CaptionedImages
    info: dict[str, Any]
    backbone: str | None = None


def read_dataset(settings: CaptionSettings, source: Any) -> CaptionDataset:
    """Decode the pictures of both parts, and set some aside for validation where none are named."""
    if source is not None:
        raise UserError("a captioner is trained on pictures and a table of captions; give their names")
    data = settings.data
    whole, backbone = _seen(settings, data.train, None)
    for note in whole.notes:
        logger.info(note)
    if data.valid is not None:
        train, valid = whole, _seen(settings, data.valid, backbone)[0]
        for note in valid.notes:
            logger.info(f"validation: {note}")
        info = _info(valid, data.valid)
        if both := set(train.names) & set(valid.names):
            logger.warning(f"{len(both):,} pictures of the validation part have the name of one in the training part")
    else:
        if len(whole) < 2:
            raise UserError("two pictures with captions or more are wanted, to set one aside for validation")
        order = np.random.default_rng(settings.seed).permutation(len(whole))
        count = int(np.clip(round(len(whole) * data.valid_fraction), 1, len(whole) - 1))
        train, valid = whole.subset(np.sort(order[count:]).tolist()), whole.subset(np.sort(order[:count]).tolist())
        info = {"rows": count, "split": data.valid_fraction}
        logger.info(f"{count:,} of {len(whole):,} pictures set aside for validation")
    longest = max(len(c.split()) for each in train.captions for c in each)
    about = {**_info(train, data.train), "captions": sum(map(len, train.captions)), "longest": longest}
    return CaptionDataset(train, valid, {"train": about, "valid": info}, backbone)


def _seen(settings: CaptionSettings, files: tuple[str, ...], known: str | None) -> tuple[CaptionedImages, str | None]:
    """Pictures with their captions, as the model reads them, and the fingerprint of the backbone."""
    part = caption_files.read_captioned_images(files[0], files[1], settings.data.size, on_progress=_told())
    made, fingerprint = seen(part.images, settings.data, known)
    check_augment(made, settings.augment)
    return replace(part, images=made), fingerprint


def _told() -> Callable[[int], Any]:
    """Many pictures take minutes to decode."""
    return lambda count: logger.info(f"{count:,} pictures decoded") if count % 10_000 == 0 else None


def _info(part: CaptionedImages, files: tuple[str, ...]) -> dict[str, Any]:
    names = " and ".join(Path(file).name for file in files)
    return {"name": names, "fingerprint": part.fingerprint, "rows": len(part), "notes": part.notes}


def encode(part: CaptionedImages, words: Tokenizer, longest: int | None) -> tuple[list[list[list[int]]], int]:
    """Ids of the captions of each picture, each with its end, and how many had more words than `longest`; a picture
    whose captions all have keeps the shortest, cut."""
    flat = words.encode_batch_raw([f" {c}" if words.kind == "bpe" else c for each in part.captions for c in each])
    rows, cut, at = [], 0, 0
    for each in part.captions:
        ids = [[*e.ids, EOS] for e in flat[at : at + len(each)]]
        at += len(each)
        kept = [row for row, c in zip(ids, each, strict=True) if longest is None or len(c.split()) <= longest]
        cut += len(ids) - len(kept)
        rows.append(kept or [min(ids, key=len)[: (longest or 0) + 1]])
    return rows, cut
