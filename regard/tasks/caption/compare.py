"""Compare captioners: BLEU-4 of greedy captions against all that people wrote of a picture, counted picture by picture
so that pictures can be drawn anew, and the share that is one of these word by word.

Pictures stay where they are, and the parts name them; workers of a cluster must find them at the same place."""

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
from regard.tasks.comparison import PARTS, ComparisonAdapter, ComparisonMetric, ItemScores, add_counts, ratio_of_sums, load_item_stats
from regard.tasks.translate.compare import sentence_bleu

BEAM = 1
PICTURES = "pictures.json"
"""Where the pictures of each part are."""


def bleu(sums: np.ndarray) -> np.ndarray:
    """From sums (..., 10) as those of translations; without a right n-gram of some n it is 0, as is usual here."""
    said, wanted, right, all_ = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    brief = np.exp(np.minimum(0.0, 1 - wanted / np.maximum(said, 1e-12)))
    shares = np.maximum(right, 1e-300) / np.maximum(all_, 1e-12)
    return np.where((right > 0).all(-1), 100 * brief * np.exp(np.log(shares).mean(-1)), 0.0)


METRICS = (
    ComparisonMetric(
        "bleu", "max", "number", "BLEU-4 of greedy captions, in small letters without punctuation", bleu, maximum=100.0
    ),
    ComparisonMetric("exact", "max", "percent", "share of captions that are a reference", ratio_of_sums, is_fraction=True, is_mean=True),
)


def _aside(rows: list[tuple[str, str]], share: float, random: np.random.Generator) -> tuple[list, list]:
    names = list(dict.fromkeys(name for name, _ in rows))
    if len(names) < 2:
        raise UserError("two pictures with captions or more are wanted, to set some aside")
    count = int(np.clip(round(len(names) * share), 1, len(names) - 1))
    aside = {names[i] for i in random.permutation(len(names))[:count]}
    return [row for row in rows if row[0] not in aside], [row for row in rows if row[0] in aside]


def _read(folder: Path, part: str, side: int) -> CaptionedImages:
    where = json.loads((folder / PICTURES).read_text(encoding="utf-8"))[part]
    return _decoded(where, str(folder / f"{part}.tsv"), side)


@lru_cache(2)
def _decoded(pictures: str, table: str, side: int) -> CaptionedImages:
    return caption_files.read_captioned_images(pictures, table, side)


class CaptionComparison(ComparisonAdapter):
    metrics = METRICS
    quality_name = "sentence BLEU"

    def split_data(
        self, settings: Any, test: Sequence[str] | None, share: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """By chance, all captions of a picture in one part."""
        given = settings.data
        random = np.random.default_rng(seed)
        rows = {"train": caption_files.read_captions(given.train[1])[0]}
        where = {"train": given.train[0]}
        for part, files, size in (("test", test, share), ("valid", given.valid, given.valid_fraction)):
            if files is not None:
                if len(files) != 2:
                    raise UserError(
                        f"the {part} part is pictures and their captions, and {len(files)} names were given"
                    )
                where[part], rows[part] = files[0], caption_files.read_captions(files[1])[0]
            else:
                where[part] = where["train"]
                rows["train"], rows[part] = _aside(rows["train"], size, random)
        for part, made in rows.items():
            text = "".join(f"{name}\t{' '.join(caption.split())}\n" for name, caption in made)
            (folder / f"{part}.tsv").write_text(text, encoding="utf-8")
        where = {part: str(Path(path).absolute()) for part, path in where.items()}
        (folder / PICTURES).write_text(json.dumps(where), encoding="utf-8")
        seen = {part: {(where[part], name) for name, _ in made} for part, made in rows.items()}
        return {
            "items": {part: len(seen[part]) for part in PARTS},
            "repeated": {
                "test in training": len(seen["test"] & seen["train"]),
                "test in validation": len(seen["test"] & seen["valid"]),
            },
            "evidence": False,
            "pictures": where,
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {part: [facts["pictures"][part], str(folder / f"{part}.tsv")] for part in ("train", "valid")}

    def score(self, run: Any, folder: Path) -> ItemScores:
        from sacrebleu.metrics.bleu import BLEU

        part, judge = _read(folder, "test", run.side), BLEU(tokenize="none", force=True)
        said = [one.text for one in run.describe(part.images, part.names, beam=BEAM)]
        counts = []
        for one, references in zip(said, part.captions, strict=True):
            seen = judge.corpus_score([one], [[reference] for reference in references])
            counts.append([seen.sys_len, seen.ref_len, *seen.counts, *seen.totals])
        same = [one in references for one, references in zip(said, part.captions, strict=True)]
        stats = {"bleu": np.array(counts, np.float64), "exact": add_counts(np.array(same))}
        return ItemScores(stats, [{"said": one} for one in said])

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        pictures = _read(folder, "valid", run.side).images
        return [lambda i=i: run.describe(pictures[i : i + 1], beam=BEAM) for i in range(min(count, len(pictures)))]

    def item_quality(self, file: Path) -> np.ndarray:
        return sentence_bleu(load_item_stats(file, "bleu"))

    def describe_items(self, folder: Path, numbers: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        part = _read(folder, "test", runs[0].side) if numbers else None
        return [{"text": part.names[i], "truth": part.captions[i][0]} for i in numbers] if part else []
