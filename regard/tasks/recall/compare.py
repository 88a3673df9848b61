"""Compare recall runs by exact match on questions about held-out people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.facts import read_facts, read_questions
from regard.data.parallel_text import read_lines
from regard.errors import UserError
from regard.tasks.comparison import (
    PARTS,
    ComparisonAdapter,
    ComparisonMetric,
    ItemScores,
    add_counts,
    load_item_stats,
    ratio_of_sums,
)
from regard.tasks.recall.dataset import split_by_person

logger = logging.getLogger(__name__)

METRICS = (
    ComparisonMetric(
        "exact",
        "max",
        "percent",
        "fraction of questions answered exactly",
        ratio_of_sums,
        is_fraction=True,
        is_mean=True,
    ),
)


def _format_question(pattern: tuple[str, str], name: str) -> str:
    before, after = pattern
    return f"{before} {name}{'' if after.startswith(('?', '.', ',')) else ' '}{after}".strip()


def _read_rows(path: Path) -> list[tuple[str, str]]:
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line)
    return [(question, answer) for question, answer in rows]


class RecallComparison(ComparisonAdapter):
    metrics = METRICS

    def split_data(
        self, settings: Any, test_files: Sequence[str] | None, test_fraction: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """Split at random, with all questions about a person in the same part; all parts share the facts."""
        data = settings.data
        if len(data.train) != 2:
            raise UserError(f"recall needs a file of facts and a table of questions, got {len(data.train)} files")
        facts = read_facts(data.train[0])
        parts = {"train": read_questions(data.train[1], facts)}
        for note in (*facts.notes, *parts["train"].notes):
            logger.info(note)
        patterns = sorted(set(parts["train"].patterns))
        for part, file, size in (
            ("test", test_files[0] if test_files else None, test_fraction),
            ("valid", data.valid, data.valid_fraction),
        ):
            if file is not None:
                parts[part] = read_questions(file, patterns)
            else:
                parts["train"], parts[part] = split_by_person(parts["train"], size, f"compare {seed}")
        (folder / "facts.txt").write_text("\n".join(read_lines(data.train[0])[0]) + "\n", encoding="utf-8")
        for part, questions in parts.items():
            rows = zip(questions.patterns, questions.names, questions.answers, strict=True)
            text = "".join(f"{_format_question(p, n)}\t{' '.join(a.split())}\n" for p, n, a in rows)
            (folder / f"{part}.tsv").write_text(text, encoding="utf-8")
        people = {part: set(questions.names) for part, questions in parts.items()}
        return {
            "items": {part: len(parts[part]) for part in PARTS},
            "repeated": {
                "test in training": sum(name in people["train"] for name in parts["test"].names),
                "test in validation": sum(name in people["valid"] for name in parts["test"].names),
            },
            "evidence": False,
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"train": [str(folder / "facts.txt"), str(folder / "train.tsv")], "valid": str(folder / "valid.tsv")}

    def score(self, run: Any, folder: Path) -> ItemScores:
        rows = _read_rows(folder / "test.tsv")
        answers = run.ask([question for question, _ in rows], nearest=0)
        is_correct = np.array([answer.guess == truth for answer, (_, truth) in zip(answers, rows, strict=True)])
        outputs = [{"output": answer.guess, "confidence": round(answer.confidence, 6)} for answer in answers]
        return ItemScores({"exact": add_counts(is_correct)}, outputs)

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        return [lambda question=q: run.ask(question, nearest=0) for q, _ in _read_rows(folder / "valid.tsv")[:count]]

    def item_quality(self, file: Path) -> np.ndarray:
        return load_item_stats(file, "exact")[:, 0]

    def describe_items(self, folder: Path, indices: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        rows = _read_rows(folder / "test.tsv")
        return [{"text": rows[i][0], "truth": rows[i][1]} for i in indices]
