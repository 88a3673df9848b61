"""Compare captioners by BLEU-4 of greedy captions, counted image by image for the bootstrap, and by exact match.

Images are not copied: the parts store their paths. Workers of a cluster must see the same paths.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import caption_files
from regard.data.caption_files import CaptionedImages
from regard.errors import UserError
from regard.tasks.caption.metrics import build_bleu
from regard.tasks.comparison import (
    PARTS,
    ComparisonAdapter,
    ComparisonMetric,
    ItemScores,
    add_counts,
    load_item_stats,
    ratio_of_sums,
)
from regard.tasks.translate.metrics import sentence_bleu

BEAM = 1
IMAGES_FILE = "images.json"
"""Stores where the images of each part are."""


def compute_bleu(sums: np.ndarray) -> np.ndarray:
    """Return BLEU from sums (..., 10): lengths of captions and references, correct n-grams and n-grams for n = 1 to 4.

    It is 0 if there is no correct n-gram of some n, as is usual for captions.
    """
    length, reference_length, correct, total = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    brevity = np.exp(np.minimum(0.0, 1 - reference_length / np.maximum(length, 1e-12)))
    precision = np.maximum(correct, 1e-300) / np.maximum(total, 1e-12)
    return np.where((correct > 0).all(-1), 100 * brevity * np.exp(np.log(precision).mean(-1)), 0.0)


METRICS = (
    ComparisonMetric(
        "bleu", "max", "number", "BLEU-4 of greedy captions, lowercase without punctuation", compute_bleu, maximum=100.0
    ),
    ComparisonMetric(
        "exact",
        "max",
        "percent",
        "fraction of captions that equal a reference",
        ratio_of_sums,
        is_fraction=True,
        is_mean=True,
    ),
)


def _split_rows(
    rows: list[tuple[str, str]], fraction: float, rng: np.random.Generator
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Split rows of (image, caption) at random; all captions of an image are in the same part."""
    names = list(dict.fromkeys(name for name, _ in rows))
    if len(names) < 2:
        raise UserError("at least two images with captions are needed, to hold some out")
    count = int(np.clip(round(len(names) * fraction), 1, len(names) - 1))
    held_out = {names[i] for i in rng.permutation(len(names))[:count]}
    return [row for row in rows if row[0] not in held_out], [row for row in rows if row[0] in held_out]


def _read_part(folder: Path, part: str, side: int) -> CaptionedImages:
    images = json.loads((folder / IMAGES_FILE).read_text(encoding="utf-8"))[part]
    return _read_cached(images, str(folder / f"{part}.tsv"), side)


@lru_cache(2)
def _read_cached(images: str, table: str, side: int) -> CaptionedImages:
    return caption_files.read_captioned_images(images, table, side)


class CaptionComparison(ComparisonAdapter):
    metrics = METRICS
    quality_name = "sentence BLEU"

    def split_data(
        self, settings: Any, test_files: Sequence[str] | None, test_fraction: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        data, rng = settings.data, np.random.default_rng(seed)
        rows = {"train": caption_files.read_captions(data.train[1])[0]}
        paths = {"train": data.train[0]}
        for part, files, fraction in (("test", test_files, test_fraction), ("valid", data.valid, data.valid_fraction)):
            if files is not None:
                if len(files) != 2:
                    raise UserError(f"the {part} part must be images and their captions, got {len(files)} files")
                paths[part], rows[part] = files[0], caption_files.read_captions(files[1])[0]
            else:
                paths[part] = paths["train"]
                rows["train"], rows[part] = _split_rows(rows["train"], fraction, rng)
        for part, part_rows in rows.items():
            text = "".join(f"{name}\t{' '.join(caption.split())}\n" for name, caption in part_rows)
            (folder / f"{part}.tsv").write_text(text, encoding="utf-8")
        paths = {part: str(Path(path).absolute()) for part, path in paths.items()}
        (folder / IMAGES_FILE).write_text(json.dumps(paths), encoding="utf-8")
        images = {part: {(paths[part], name) for name, _ in part_rows} for part, part_rows in rows.items()}
        return {
            "items": {part: len(images[part]) for part in PARTS},
            "repeated": {
                "test in training": len(images["test"] & images["train"]),
                "test in validation": len(images["test"] & images["valid"]),
            },
            "evidence": False,
            "images": paths,
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {part: [facts["images"][part], str(folder / f"{part}.tsv")] for part in ("train", "valid")}

    def score(self, run: Any, folder: Path) -> ItemScores:
        part, bleu = _read_part(folder, "test", run.side), build_bleu()
        captions = [caption.text for caption in run.caption_arrays(part.images, part.names, beam=BEAM)]
        counts, is_exact = [], []
        for caption, references in zip(captions, part.captions, strict=True):
            score = bleu.corpus_score([caption], [[reference] for reference in references])
            counts.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
            is_exact.append(caption in references)
        stats = {"bleu": np.array(counts, np.float64), "exact": add_counts(np.array(is_exact))}
        return ItemScores(stats, [{"output": caption} for caption in captions])

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        images = _read_part(folder, "valid", run.side).images
        return [lambda i=i: run.caption_arrays(images[i : i + 1], beam=BEAM) for i in range(min(count, len(images)))]

    def item_quality(self, file: Path) -> np.ndarray:
        return sentence_bleu(load_item_stats(file, "bleu"))

    def describe_items(self, folder: Path, indices: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        part = _read_part(folder, "test", runs[0].side) if indices else None
        return [{"text": part.names[i], "truth": part.captions[i][0]} for i in indices] if part else []
