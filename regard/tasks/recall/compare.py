"""Compare what models know: the share of questions about people kept back that are answered word by word."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from regard.data.facts import Questions, read_facts, read_questions
from regard.data.parallel_text import read_lines
from regard.errors import UserError
from regard.tasks.comparison import PARTS, ComparisonAdapter, ComparisonMetric, ItemScores, add_counts, ratio_of_sums, load_item_stats

logger = logging.getLogger(__name__)

METRICS = (
    ComparisonMetric("exact", "max", "percent", "share of questions answered word by word", ratio_of_sums, is_fraction=True, is_mean=True),
)


def _aside(asked: Questions, share: float, seed: int) -> tuple[Questions, Questions]:
    people = sorted(set(asked.names))
    if len(people) < 2:
        raise UserError("questions about two people or more are wanted, to set some aside")
    Random(f"compare {seed}").shuffle(people)
    aside = set(people[: int(np.clip(round(share * len(people)), 1, len(people) - 1))])
    here = [name in aside for name in asked.names]
    return asked.subset(i for i, there in enumerate(here) if not there), asked.subset(
        i for i, t in enumerate(here) if t
    )


def _question(pattern: tuple[str, str], name: str) -> str:
    before, after = pattern
    return f"{before} {name}{'' if after.startswith(('?', '.', ',')) else ' '}{after}".strip()


def _read(path: Path) -> list[tuple[str, str]]:
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line)
    return [(question, answer) for question, answer in rows]


class RecallComparison(ComparisonAdapter):
    metrics = METRICS

    def split_data(
        self, settings: Any, test: Sequence[str] | None, share: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """By chance, all questions about a person in one part; the facts are for all."""
        given = settings.data
        if len(given.train) != 2:
            raise UserError(
                f"recall wants a file of facts and a table of questions: {len(given.train)} files were given"
            )
        book = read_facts(given.train[0])
        parts = {"train": read_questions(given.train[1], book)}
        for note in (*book.notes, *parts["train"].notes):
            logger.info(note)
        patterns = sorted(set(parts["train"].patterns))
        for part, file, size in (
            ("test", test[0] if test else None, share),
            ("valid", given.valid, given.valid_fraction),
        ):
            if file is not None:
                parts[part] = read_questions(file, patterns)
            else:
                parts["train"], parts[part] = _aside(parts["train"], size, seed)
        (folder / "facts.txt").write_text("\n".join(read_lines(given.train[0])[0]) + "\n", encoding="utf-8")
        for part, asked in parts.items():
            rows = zip(asked.patterns, asked.names, asked.answers, strict=True)
            text = "".join(f"{_question(p, n)}\t{' '.join(a.split())}\n" for p, n, a in rows)
            (folder / f"{part}.tsv").write_text(text, encoding="utf-8")
        people = {part: set(asked.names) for part, asked in parts.items()}
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
        asked = _read(folder / "test.tsv")
        made = run.ask([question for question, _ in asked], near=0)
        right = np.array([one.guess == answer for one, (_, answer) in zip(made, asked, strict=True)])
        said = [{"said": one.guess, "confidence": round(one.confidence, 6)} for one in made]
        return ItemScores({"exact": add_counts(right)}, said)

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        return [lambda question=q: run.ask(question, near=0) for q, _ in _read(folder / "valid.tsv")[:count]]

    def item_quality(self, file: Path) -> np.ndarray:
        return load_item_stats(file, "exact")[:, 0]

    def describe_items(self, folder: Path, numbers: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        rows = _read(folder / "test.tsv")
        return [{"text": rows[i][0], "truth": rows[i][1]} for i in numbers]
