"""Compare translators by BLEU of greedy translations.

N-grams are counted sentence by sentence, so that sentences can be resampled (Koehn 2004).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.parallel_text import read_parallel_texts
from regard.inspect import find_attention_layers
from regard.tasks.comparison import (
    PARTS,
    ComparisonAdapter,
    ComparisonMetric,
    ItemScores,
    add_counts,
    count_repeated,
    load_item_stats,
    ratio_of_sums,
    read_jsonl,
    write_jsonl,
)
from regard.tasks.translate.dataset import split_by_source
from regard.tasks.translate.metrics import bleu_from_counts, count_ngrams, sentence_bleu

logger = logging.getLogger(__name__)

GREEDY = 1  # beam size
SIGNATURE = "sacrebleu nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"


class TranslateComparison(ComparisonAdapter):
    """Comparison of translators."""

    metrics = (
        ComparisonMetric(
            "bleu", "max", "number", f"BLEU of greedy translations ({SIGNATURE})", bleu_from_counts, maximum=100.0
        ),
        ComparisonMetric(
            "exact",
            "max",
            "percent",
            "fraction of translations that equal the reference",
            ratio_of_sums,
            is_fraction=True,
            is_mean=True,
        ),
    )
    quality_name = "sentence BLEU"

    def split_data(
        self, settings: Any, test_files: Sequence[str] | None, test_fraction: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """At random. Pairs with the same source are in the same part."""
        data, rng = settings.data, np.random.default_rng(seed)
        parts = {"train": _read_rows(data.train, data)}
        for part, files, fraction in (
            ("test", test_files, test_fraction),
            ("valid", data.valid, data.valid_fraction),
        ):
            if files is not None:
                parts[part] = _read_rows(files, data)
            else:
                rows = parts["train"]
                split = split_by_source([row["source"] for row in rows], fraction, rng)
                parts["train"], parts[part] = ([rows[i] for i in indices] for indices in split)
        for part, rows in parts.items():
            write_jsonl(folder / f"{part}.jsonl", rows)
        return {
            "items": {part: len(parts[part]) for part in PARTS},
            "repeated": count_repeated({part: [row["source"] for row in rows] for part, rows in parts.items()}),
            "evidence": False,
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        files = {part: [str(folder / f"{part}.jsonl")] for part in ("train", "valid")}
        return {**files, "source": "source", "target": "target"}

    def score(self, run: Any, folder: Path) -> ItemScores:
        from sacrebleu.metrics.bleu import BLEU

        rows, metric = read_jsonl(folder / "test.jsonl"), BLEU()
        references = [row["target"] for row in rows]
        outputs = [t.text for t in run.translate_all([row["source"] for row in rows], beam=GREEDY)]
        pairs = list(zip(outputs, references, strict=True))
        counts = [count_ngrams(metric, output, [reference]) for output, reference in pairs]
        exact = [output.split() == reference.split() for output, reference in pairs]
        stats = {"bleu": np.array(counts, np.float64), "exact": add_counts(np.array(exact))}
        return ItemScores(stats, [{"output": output} for output in outputs])

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        rows = read_jsonl(folder / "valid.jsonl")[:count]
        return [lambda text=row["source"]: run.translate(text, beam=GREEDY) for row in rows]

    def look(self, run: Any, folder: Path, item: int, faithful: bool) -> dict[str, Any] | None:
        source = read_jsonl(folder / "test.jsonl")[item]["source"]
        if not source.strip() or not find_attention_layers(run.model):
            return None
        return run.look(source, faithful=faithful, beam=GREEDY).data

    def item_quality(self, file: Path) -> np.ndarray:
        return sentence_bleu(load_item_stats(file, "bleu"))

    def describe_items(self, folder: Path, indices: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        rows = read_jsonl(folder / "test.jsonl")
        return [{"text": rows[i]["source"], "truth": rows[i]["target"]} for i in indices]


def _read_rows(files: Sequence[str], data: Any) -> list[dict[str, Any]]:
    """The pairs of two aligned files, or of one table."""
    columns = {"source": data.source, "target": data.target} if len(files) == 1 else {}
    pairs = read_parallel_texts(files, **columns)
    for note in pairs.notes:
        logger.info(note)
    return [{"source": s, "target": t} for s, t in zip(pairs.sources, pairs.targets, strict=True)]
