"""Where designs disagree: how often each pair does, and test items that some do well and others do not, with what each
said of them, opened in the attention view."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.comparison.formatting import plain
from regard.comparison.plan import Plan, folder_of, score_of
from regard.comparison.scoring import opened
from regard.errors import UserError
from regard.tasks.comparison import ComparisonAdapter, get_comparison

EXAMPLES, BESIDE = 4, 4
"""Items that are shown, and designs beside each other."""
EMPTY: dict[str, Any] = {"matrix": [], "sentences": [], "examples": []}


def disagreements(plan: Plan, found: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """By the first seed of each design: `matrix` of shares, `sentences` about it, and `examples` of what each said,
    with looks for the viewer."""
    entries = {entry.design.name: entry for entry in plan.entries}
    files = {row["name"]: score_of(out, entries[row["name"]].design, row["seeds"][0]) for row in found["rows"]}
    if len(files) < 2:
        return EMPTY
    judge, names = get_comparison(plan.asked.task), list(files)
    said = {name: _said(file) for name, file in files.items()}
    quality = np.stack([judge.item_quality(file) for file in files.values()])  # (designs, items)
    spoken = all(said.values()) and all(one is not None for row in said.values() for one in row)
    chosen = spread(quality) if judge.quality_name else choose(quality > 0.5)
    shown = names[:BESIDE]
    folders = [folder_of(out, entries[row["name"]].design, row["seeds"][0]) for row in found["rows"][:BESIDE]]
    runs = [opened(folder) for folder in folders] if chosen else []
    examples = []
    for item, about in zip(chosen, judge.describe_items(out / "parts", chosen, runs), strict=True):
        words = about.get("outputs") or [str(said[name][item]) if spoken else "" for name in names]
        each = [
            {"name": name, "said": one, **_figure(judge, quality[:, item], names.index(name))}
            for name, one in zip(names, words, strict=False)
        ]
        looks = _looks(judge, runs, shown, out, item, about)
        examples.append({"text": about["text"], "truth": about["truth"], "each": each, "item": item, "looks": looks})
    return {
        "matrix": _differ(said, names) if spoken else _ahead(quality, names),
        "sentences": _graded(names, quality, judge.quality_name) if judge.quality_name else _sentences(names, quality > 0.5),
        "examples": examples,
    }


def choose(right: np.ndarray, count: int = EXAMPLES) -> list[int]:
    """Items on which designs (designs, items) are most evenly parted into right and wrong, spread over those there
    are."""
    parted = np.minimum(right.sum(0), (~right).sum(0))
    best = np.flatnonzero((parted == parted.max()) & (parted > 0))
    rest = np.flatnonzero((parted > 0) & (parted < parted.max())) if len(best) < count else np.empty(0, int)
    order = np.concatenate([best, rest[np.argsort(-parted[rest], kind="stable")]]).astype(int)
    if len(best) > count:
        order = best[np.linspace(0, len(best) - 1, count).round().astype(int)]
    return order[:count].tolist()


def spread(quality: np.ndarray, count: int = EXAMPLES) -> list[int]:
    """Items on which designs (designs, items) are furthest apart, in turn those that each design does best."""
    apart, winner = quality.max(0) - quality.min(0), quality.argmax(0)
    order = [i for i in np.argsort(-apart, kind="stable").tolist() if apart[i] > 0]
    lines = [[i for i in order if winner[i] == design] for design in range(len(quality))]
    turns = [line[turn] for turn in range(count) for line in lines if turn < len(line)]
    return turns[:count]


def _differ(said: Mapping[str, list[Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Shares of items on which two say different things."""
    shares = [[np.mean([a != b for a, b in zip(said[m], said[n], strict=True)]) for n in names] for m in names]
    return _matrix(shares, names)


def _ahead(quality: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    """Shares of items on which the one of the row does better than the one of the column."""
    return _matrix([[(a > b).mean() for b in quality] for a in quality], names)


def _matrix(shares: Sequence[Sequence[Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "cells": ["" if i == j else f"{100 * shares[i][j]:.1f} %" for j in range(len(names))]}
        for i, name in enumerate(names)
    ]


def _sentences(names: Sequence[str], right: np.ndarray) -> list[str]:
    both, none = right.all(0).mean(), (~right).all(0).mean()
    said = [f"All designs are right on {both:.1%} of the test items, all are wrong on {none:.1%}."]
    alone = [(name, int((right[i] & (right.sum(0) == 1)).sum())) for i, name in enumerate(names)]
    said += [f"{name} alone is right on {count:,}." for name, count in alone if count]
    said.append("Shares of test items on which two designs say different things, by the first seed of each:")
    return said


def _graded(names: Sequence[str], quality: np.ndarray, what: str) -> list[str]:
    """Against the first, how often each other does better, and how far the two are apart on an item."""
    said = []
    for i, name in enumerate(names[1:BESIDE], 1):
        gaps = quality[i] - quality[0]
        apart = plain(float(np.median(np.abs(gaps))), 2)
        said.append(
            f"By {what}, {name} does better than {names[0]} on {(gaps > 0).mean():.1%} of the test items and worse on "
            f"{(gaps < 0).mean():.1%}; on half of them the two are more than {apart} apart."
        )
    differ = "on which the design of the row does better than that of the column"
    if what == "sentence BLEU":
        differ = "on which two designs say different things"
    return [*said, f"Shares of test items {differ}, by the first seed of each:"]


def _figure(judge: ComparisonAdapter, quality: np.ndarray, design: int) -> dict[str, Any]:
    """How well one design did on an item, and whether that is the best of all."""
    value = float(quality[design])
    if not judge.quality_name:
        return {"right": value > 0.5, "figure": ""}
    return {"right": value == quality.max(), "figure": f"{judge.quality_name} {plain(abs(value), 2)}"}


def _looks(
    judge: ComparisonAdapter, runs: Sequence[Any], names: Sequence[str], out: Path, item: int, about: Mapping[str, Any]
) -> list[dict[str, Any]]:
    looks: list[dict[str, Any]] = []
    for run, name in zip(runs, names, strict=True):
        try:
            if about.get("prompt"):
                seen = run.look(about["prompt"], faithful=False).data if "look" in run.verbs else None
            else:
                seen = judge.look(run, out / "parts", item, judge.measures_faithfulness)
        except (ValueError, RuntimeError, UserError):  # what cannot be shown leaves the report as it is
            seen = None
        if seen is not None:
            looks.append({**seen, "model": name, "title": f"test item {item + 1}, truly {about['truth']}"})
    return looks


def _said(file: Path) -> list[Any]:
    lines = file.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line).get("output") for line in lines if line]
