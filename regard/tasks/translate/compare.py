"""Compare translators: BLEU of greedy translations, its parts counted sentence by sentence so that sentences can be
drawn anew (Koehn 2004), and the share of sentences that are right word by word."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import parallel_text
from regard.data.train_valid_split import count_duplicates
from regard.errors import UserError
from regard.inspect import find_attention_layers
from regard.tasks.comparison import PARTS, ComparisonAdapter, ComparisonMetric, ItemScores, add_counts, ratio_of_sums, load_item_stats

logger = logging.getLogger(__name__)

BEAM = 1
SIGNATURE = "sacrebleu nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"


def bleu(sums: np.ndarray) -> np.ndarray:
    """From sums (..., 10) of lengths said and wanted, and of the right and all n-grams, n = 1..4 (Papineni et al.
    2002), with sacrebleu's smoothing: an n without a right one counts 1/2, 1/4, ... of one."""
    said, wanted, right, all_ = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    none = (right == 0) & (all_ > 0)
    halves = 0.5 ** np.cumsum(none, -1)
    shares = np.where(none, halves, right) / np.maximum(all_, 1e-12)
    # sacrebleu: without 4-grams, or without a right word, BLEU is 0
    real = (all_ > 0).all(-1) & (right[..., 0] > 0)
    brief = np.exp(np.minimum(0.0, 1 - wanted / np.maximum(said, 1e-12)))
    return np.where(real, 100 * brief * np.exp(np.log(np.maximum(shares, 1e-300)).mean(-1)), 0.0)


def sentence_bleu(counts: np.ndarray) -> np.ndarray:
    """Of single sentences, which may have no 4-grams: over those n that there are (sacrebleu's effective order)."""
    said, wanted, right, all_ = counts[..., 0], counts[..., 1], counts[..., 2:6], counts[..., 6:10]
    there = all_ > 0
    none = (right == 0) & there
    shares = np.where(none, 0.5 ** np.cumsum(none, -1), right) / np.maximum(all_, 1e-12)
    logs = (np.log(np.maximum(shares, 1e-300)) * there).sum(-1) / np.maximum(there.sum(-1), 1)
    brief = np.exp(np.minimum(0.0, 1 - wanted / np.maximum(said, 1e-12)))
    return np.where(right[..., 0] > 0, 100 * brief * np.exp(logs), 0.0)


METRICS = (
    ComparisonMetric("bleu", "max", "number", f"BLEU of greedy translations ({SIGNATURE})", bleu, maximum=100.0),
    ComparisonMetric("exact", "max", "percent", "share of translations that are the reference", ratio_of_sums, is_fraction=True, is_mean=True),
)


def _aside(rows: list[tuple[str, str]], share: float, random: np.random.Generator) -> tuple[list, list]:
    numbers: dict[str, int] = {}
    group = np.array([numbers.setdefault(source, len(numbers)) for source, _ in rows])
    if len(numbers) < 2:
        raise UserError("pairs with two different sources or more are wanted, to set some aside")
    count = int(np.clip(round(len(numbers) * share), 1, len(numbers) - 1))
    aside = np.isin(group, random.permutation(len(numbers))[:count])
    return [rows[i] for i in np.flatnonzero(~aside)], [rows[i] for i in np.flatnonzero(aside)]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


class TranslateComparison(ComparisonAdapter):
    metrics = METRICS
    quality_name = "sentence BLEU"

    def split_data(
        self, settings: Any, test: Sequence[str] | None, share: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """By chance; pairs with the same source stay together."""
        given = settings.data
        whole = parallel_text.read_parallel_texts(given.train, source=given.source, target=given.target)
        for note in whole.notes:
            logger.info(note)
        random = np.random.default_rng(seed)
        parts = {"train": list(zip(whole.sources, whole.targets, strict=True))}
        for part, files, size in (("test", test, share), ("valid", given.valid, given.valid_fraction)):
            if files is not None:
                columns = {"source": given.source, "target": given.target} if len(files) == 1 else {}
                found = parallel_text.read_parallel_texts(files, **columns)
                parts[part] = list(zip(found.sources, found.targets, strict=True))
            else:
                parts["train"], parts[part] = _aside(parts["train"], size, random)
        for part, made in parts.items():
            rows = (json.dumps({"source": s, "target": t}, ensure_ascii=False) + "\n" for s, t in made)
            (folder / f"{part}.jsonl").write_text("".join(rows), encoding="utf-8")
        sources = {part: [source for source, _ in made] for part, made in parts.items()}
        return {
            "items": {part: len(parts[part]) for part in PARTS},
            "repeated": {
                "test in training": count_duplicates(sources["train"], sources["test"]),
                "test in validation": count_duplicates(sources["valid"], sources["test"]),
                "validation in training": count_duplicates(sources["train"], sources["valid"]),
            },
            "evidence": False,
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        files = {part: [str(folder / f"{part}.jsonl")] for part in ("train", "valid")}
        return {**files, "source": "source", "target": "target"}

    def score(self, run: Any, folder: Path) -> ItemScores:
        from sacrebleu.metrics.bleu import BLEU

        rows = _read(folder / "test.jsonl")
        said = [made.text for made in run.translate_all([row["source"] for row in rows], beam=BEAM)]
        wanted, judge = [row["target"] for row in rows], BLEU()
        counts = []
        for one, truth in zip(said, wanted, strict=True):
            seen = judge.corpus_score([one], [[truth]])
            counts.append([seen.sys_len, seen.ref_len, *seen.counts, *seen.totals])
        same = [one.split() == truth.split() for one, truth in zip(said, wanted, strict=True)]
        stats = {"bleu": np.array(counts, np.float64), "exact": add_counts(np.array(same))}
        return ItemScores(stats, [{"said": one} for one in said])

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        rows = _read(folder / "valid.jsonl")[:count]
        return [lambda text=row["source"]: run.translate(text, beam=BEAM) for row in rows]

    def look(self, run: Any, folder: Path, item: int, faithful: bool) -> dict[str, Any] | None:
        source = _read(folder / "test.jsonl")[item]["source"]
        return (
            run.look(source, faithful=faithful, beam=BEAM).data
            if source.strip() and find_attention_layers(run.model)
            else None
        )

    def item_quality(self, file: Path) -> np.ndarray:
        return sentence_bleu(load_item_stats(file, "bleu"))

    def describe_items(self, folder: Path, numbers: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        rows = _read(folder / "test.jsonl")
        return [{"text": rows[i]["source"], "truth": rows[i]["target"]} for i in numbers]
