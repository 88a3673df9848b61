"""Find the text files of a language model. Their content is read when it is tokenized, one block at a time."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.data import chunks
from regard.errors import UserError
from regard.tasks.language.settings import LanguageSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LanguageDataset:
    """Text files.

    Attributes:
        train: Training files.
        valid: Validation files; None to hold out the last tokens of the training files.
        valid_fraction: The fraction of the tokens to hold out.
        info: For config.json.
    """

    train: list[chunks.TextSource]
    valid: list[chunks.TextSource] | None
    valid_fraction: float
    info: dict[str, Any]


def read_dataset(settings: LanguageSettings, source: Any) -> LanguageDataset:
    """Find the files that the settings name."""
    if source is not None:
        raise UserError("a language model is trained on text files or folders; pass their names")
    data = settings.data
    train = _find_files(data.train)
    info: dict[str, Any] = {"train": _describe_files(train), "valid": {"split": data.valid_fraction}}
    if data.valid is None:
        return LanguageDataset(train, None, data.valid_fraction, info)
    valid = _find_files(data.valid, "validation: ")
    return LanguageDataset(train, valid, 0.0, {**info, "valid": _describe_files(valid)})


def read_training_text(dataset: LanguageDataset, max_bytes: int | None = None) -> Iterator[str]:
    """The training text in blocks. With `max_bytes`, a longer text is sampled at even distances."""
    sizes = [chunks.file_size(file) for file in dataset.train]
    end = (1 - dataset.valid_fraction) * sum(sizes)  # the rest is for validation
    every = 1 if max_bytes is None else max(1, -(-sum(sizes) // max_bytes))
    offset = number = 0
    for file, size in zip(dataset.train, sizes, strict=True):
        for block in chunks.read_blocks(file, size=min(chunks.BLOCK_BYTES, max(1, int(end) // 8))):
            if offset + block.read > end and number:
                return
            if number % every == 0:
                yield block.data.decode("utf-8", "replace")  # the corpus reports invalid UTF-8
            number += 1
        offset += size


def _find_files(paths: Any, prefix: str = "") -> list[chunks.TextSource]:
    files, notes = chunks.find_text_files(paths)
    for note in notes:
        logger.info(f"{prefix}{note}")
    return files


def _describe_files(files: list[chunks.TextSource]) -> dict[str, Any]:
    digest = hashlib.sha256()
    for file in files:
        with chunks.open_source(file) as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return {"name": files[0].name if len(files) == 1 else f"{len(files)} files", "fingerprint": digest.hexdigest()}
