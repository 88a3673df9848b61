"""Read sentence pairs and split them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.parallel_text import ParallelTexts, read_parallel_texts
from regard.data.train_valid_split import count_duplicates
from regard.errors import UserError
from regard.tasks.translate.settings import TranslateSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TranslateDataset:
    """Training and validation pairs; `info` is for config.json."""

    train: ParallelTexts
    valid: ParallelTexts
    info: dict[str, Any]


def read_dataset(settings: TranslateSettings, source: Any) -> TranslateDataset:
    """Read the pairs; hold out a validation part unless the settings name one."""
    if source is not None:
        raise UserError("a translator is trained on two aligned files or on a table with two columns; pass their names")
    data = settings.data
    pairs = read_parallel_texts(data.train, source=data.source, target=data.target)
    for note in pairs.notes:
        logger.info(note)
    if data.valid is not None:
        columns: dict[str, Any] = {"source": data.source, "target": data.target} if len(data.valid) == 1 else {}
        train, valid = pairs, read_parallel_texts(data.valid, **columns)
        for note in valid.notes:
            logger.info(f"validation: {note}")
        valid_info = _describe_pairs(valid, data.valid)
    else:
        train, valid = split_pairs(pairs, data.valid_fraction, settings.seed)
        valid_info = {"rows": len(valid.sources), "split": data.valid_fraction}
        logger.info(f"{len(valid.sources):,} of {len(pairs.sources):,} pairs held out for validation")
    repeated = count_duplicates(train.sources, valid.sources)
    if repeated:
        logger.warning(f"{repeated:,} of the {len(valid.sources):,} validation sources are also in the training part")
    train_info = {**_describe_pairs(train, data.train), "longest": 0}
    return TranslateDataset(train, valid, {"train": train_info, "valid": valid_info})


def split_pairs(pairs: ParallelTexts, fraction: float, seed: int) -> tuple[ParallelTexts, ParallelTexts]:
    """Split at random into a training and a validation part, each with at least one pair.

    Pairs with the same source are in the same part.
    """
    rng = np.random.default_rng(seed)
    train_rows, valid_rows = split_by_source(pairs.sources, fraction, rng)
    return _select(pairs, train_rows), _select(pairs, valid_rows)


def split_by_source(sources: list[str], fraction: float, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Split rows at random. Rows with the same source are in the same part.

    Returns:
        The rows to keep and the rows to hold out, about `fraction` of the different sources.
    """
    groups: dict[str, int] = {}
    group_of_row = np.array([groups.setdefault(source, len(groups)) for source in sources])
    if len(groups) < 2:
        raise UserError("at least two different sources are needed to hold out a part of the pairs")
    count = int(np.clip(round(len(groups) * fraction), 1, len(groups) - 1))
    held_out = np.isin(group_of_row, rng.permutation(len(groups))[:count])
    return np.flatnonzero(~held_out).tolist(), np.flatnonzero(held_out).tolist()


def _select(pairs: ParallelTexts, rows: list[int]) -> ParallelTexts:
    return ParallelTexts([pairs.sources[i] for i in rows], [pairs.targets[i] for i in rows], [], pairs.fingerprint)


def _describe_pairs(pairs: ParallelTexts, files: tuple[str, ...]) -> dict[str, Any]:
    names = " and ".join(Path(file).name for file in files)
    return {"name": names, "fingerprint": pairs.fingerprint, "rows": len(pairs.sources), "notes": pairs.notes}
