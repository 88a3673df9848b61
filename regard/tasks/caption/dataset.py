"""Read the data of `caption` and split it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.caption_files import CaptionedImages, read_captioned_images
from regard.data.tokenizer import EOS, Tokenizer
from regard.errors import UserError
from regard.models.timm_backbone import apply_backbone
from regard.tasks.caption.settings import CaptionSettings
from regard.tasks.image_input import check_augment

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CaptionDataset:
    """Decoded images, or features, of both parts, with their captions."""

    train: CaptionedImages
    valid: CaptionedImages
    info: dict[str, Any]
    backbone: str | None = None


def read_dataset(settings: CaptionSettings, source: Any) -> CaptionDataset:
    """Decode the images. Without a validation part, a fraction of the images is held out."""
    if source is not None:
        raise UserError("a captioner is trained on images and a table of captions; pass their names")
    data = settings.data
    train, backbone = _read_images(settings, data.train, None)
    for note in train.notes:
        logger.info(note)
    if data.valid is not None:
        valid = _read_images(settings, data.valid, backbone)[0]
        for note in valid.notes:
            logger.info(f"validation: {note}")
        valid_info = _describe_part(valid, data.valid)
        if shared := set(train.names) & set(valid.names):
            logger.warning(f"{len(shared):,} validation images have the name of a training image")
    else:
        total = len(train)
        if total < 2:
            raise UserError("caption needs at least two images with captions, to hold one out for validation")
        permutation = np.random.default_rng(settings.seed).permutation(total)
        count = int(np.clip(round(total * data.valid_fraction), 1, total - 1))
        train, valid = (train.subset(np.sort(rows).tolist()) for rows in (permutation[count:], permutation[:count]))
        valid_info = {"rows": count, "split": data.valid_fraction}
        logger.info(f"{count:,} of {total:,} images are held out for validation")
    train_info = {
        **_describe_part(train, data.train),
        "captions": sum(map(len, train.captions)),
        "max_words": max(len(caption.split()) for captions in train.captions for caption in captions),
    }
    return CaptionDataset(train, valid, {"train": train_info, "valid": valid_info}, backbone)


def _read_images(
    settings: CaptionSettings, files: tuple[str, ...], fingerprint: str | None
) -> tuple[CaptionedImages, str | None]:
    """Return the model input with captions, and the fingerprint of the backbone."""
    part = read_captioned_images(files[0], files[1], settings.data.size, on_progress=_log_progress)
    array, fingerprint = apply_backbone(part.images, settings.data, fingerprint)
    check_augment(array, settings.augment)
    return replace(part, images=array), fingerprint


def _log_progress(count: int) -> None:
    if count % 10_000 == 0:
        logger.info(f"{count:,} images decoded")


def _describe_part(part: CaptionedImages, files: tuple[str, ...]) -> dict[str, Any]:
    names = " and ".join(Path(file).name for file in files)
    return {"name": names, "fingerprint": part.fingerprint, "rows": len(part), "notes": part.notes}


def encode_captions(
    part: CaptionedImages, tokenizer: Tokenizer, max_words: int | None
) -> tuple[list[list[list[int]]], int]:
    """Tokenize captions.

    Returns:
        Token ids of the captions of each image, each ending with [EOS], and the number of captions that were skipped
        because they have more than `max_words` words. If all captions of an image are too long, the shortest one is
        truncated.
    """
    texts = [caption for captions in part.captions for caption in captions]
    encodings = tokenizer.encode_batch_raw([f" {text}" if tokenizer.kind == "bpe" else text for text in texts])
    rows, num_skipped, start = [], 0, 0
    for captions in part.captions:
        ids = [[*encoding.ids, EOS] for encoding in encodings[start : start + len(captions)]]
        start += len(captions)
        short = [row for row, c in zip(ids, captions, strict=True) if max_words is None or len(c.split()) <= max_words]
        num_skipped += len(ids) - len(short)
        rows.append(short or [min(ids, key=len)[: (max_words or 0) + 1]])
    return rows, num_skipped
