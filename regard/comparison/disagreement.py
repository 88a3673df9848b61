"""Where designs disagree: how often each pair does, and test items with the output and the attention of each design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.comparison.formatting import format_number
from regard.comparison.plan import Plan, run_folder, score_file
from regard.comparison.score_run import load_run
from regard.errors import UserError
from regard.tasks.comparison import ComparisonAdapter, get_comparison, read_jsonl

NUM_EXAMPLES, MAX_DESIGNS = 4, 4
"""Items in the report, and designs that are shown next to each other."""
NO_DISAGREEMENT: dict[str, Any] = {"matrix": [], "sentences": [], "examples": []}


def describe_disagreement(plan: Plan, results: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Compare the first seed of each design item by item.

    Returns:
        "matrix" of how often two designs differ, "sentences" about it, and "examples" with outputs and attention.
    """
    designs = {planned.name: planned.design for planned in plan.designs}
    first_seeds = {row["name"]: row["seeds"][0] for row in results["rows"]}
    files = {name: score_file(out, designs[name], seed) for name, seed in first_seeds.items()}
    if len(files) < 2:
        return NO_DISAGREEMENT
    adapter, names = get_comparison(plan.request.task), list(files)
    outputs = {
        name: [line.get("output") for line in read_jsonl(file.with_suffix(".jsonl"))] for name, file in files.items()
    }
    quality = np.stack([adapter.item_quality(file) for file in files.values()])  # (designs, items)
    has_outputs = all(outputs.values()) and all(output is not None for row in outputs.values() for output in row)
    items = select_distant(quality) if adapter.quality_name else select_split(quality > 0.5)
    shown = names[:MAX_DESIGNS]
    runs = [load_run(run_folder(out, designs[name], first_seeds[name])) for name in shown] if items else []
    examples = []
    for item, description in zip(items, adapter.describe_items(out / "parts", items, runs), strict=True):
        item_outputs = description.get("outputs") or [str(outputs[n][item]) if has_outputs else "" for n in names]
        examples.append(
            {
                "text": description["text"],
                "truth": description["truth"],
                "item": item,
                "outputs": [
                    {"name": name, "output": output, **_rate_output(adapter, quality[:, item], i)}
                    for i, (name, output) in enumerate(zip(names, item_outputs, strict=False))
                ],
                "looks": _look_at_item(adapter, runs, shown, out, item, description),
            }
        )
    return {
        "matrix": _difference_matrix(outputs, names) if has_outputs else _win_matrix(quality, names),
        "sentences": _describe_quality(names, quality, adapter.quality_name)
        if adapter.quality_name
        else _describe_correctness(names, quality > 0.5),
        "examples": examples,
    }


def select_split(correct: np.ndarray, count: int = NUM_EXAMPLES) -> list[int]:
    """Select items on which about half of the designs are correct, evenly spaced.

    Args:
        correct: (designs, items).
    """
    minority = np.minimum(correct.sum(0), (~correct).sum(0))
    best = np.flatnonzero((minority == minority.max()) & (minority > 0))
    rest = np.flatnonzero((minority > 0) & (minority < minority.max())) if len(best) < count else np.empty(0, int)
    order = np.concatenate([best, rest[np.argsort(-minority[rest], kind="stable")]]).astype(int)
    if len(best) > count:
        order = best[np.linspace(0, len(best) - 1, count).round().astype(int)]
    return order[:count].tolist()


def select_distant(quality: np.ndarray, count: int = NUM_EXAMPLES) -> list[int]:
    """Select items with the largest difference in quality, in turn among those that each design does best.

    Args:
        quality: (designs, items).
    """
    distance, winner = quality.max(0) - quality.min(0), quality.argmax(0)
    order = [i for i in np.argsort(-distance, kind="stable").tolist() if distance[i] > 0]
    by_winner = [[i for i in order if winner[i] == design] for design in range(len(quality))]
    interleaved = [items[i] for i in range(count) for items in by_winner if i < len(items)]
    return interleaved[:count]


def _difference_matrix(outputs: Mapping[str, list[Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return how often two designs have different outputs."""
    return _matrix(
        [[np.mean([a != b for a, b in zip(outputs[m], outputs[n], strict=True)]) for n in names] for m in names], names
    )


def _win_matrix(quality: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return how often the design of the row is better than the one of the column."""
    return _matrix([[(a > b).mean() for b in quality] for a in quality], names)


def _matrix(fractions: Sequence[Sequence[Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "cells": ["" if i == j else f"{100 * fractions[i][j]:.1f} %" for j in range(len(names))]}
        for i, name in enumerate(names)
    ]


DIFFERENT_OUTPUTS = "Fractions of test items on which two designs have different outputs, for the first seed of each:"


def _describe_correctness(names: Sequence[str], correct: np.ndarray) -> list[str]:
    all_correct, all_wrong = correct.all(0).mean(), (~correct).all(0).mean()
    sentences = [f"All designs are correct on {all_correct:.1%} of the test items, all are wrong on {all_wrong:.1%}."]
    for i, name in enumerate(names):
        if count := int((correct[i] & (correct.sum(0) == 1)).sum()):
            sentences.append(f"Only {name} is correct on {count:,}.")
    return [*sentences, DIFFERENT_OUTPUTS]


def _describe_quality(names: Sequence[str], quality: np.ndarray, quality_name: str) -> list[str]:
    """Say how often each design is better than the first one, and the median difference."""
    sentences = []
    for i, name in enumerate(names[1:MAX_DESIGNS], 1):
        differences = quality[i] - quality[0]
        median = format_number(float(np.median(np.abs(differences))), 2)
        sentences.append(
            f"By {quality_name}, {name} is better than {names[0]} on {(differences > 0).mean():.1%} of the test items "
            f"and worse on {(differences < 0).mean():.1%}; the median difference is {median}."
        )
    if quality_name == "sentence BLEU":
        return [*sentences, DIFFERENT_OUTPUTS]
    wins = "Fractions of test items on which the design of the row is better than that of the column"
    return [*sentences, f"{wins}, for the first seed of each:"]


def _rate_output(adapter: ComparisonAdapter, quality: np.ndarray, design: int) -> dict[str, Any]:
    """Return whether an output is correct (or the best of all), and its quality."""
    value = float(quality[design])
    if not adapter.quality_name:
        return {"correct": value > 0.5, "quality": ""}
    return {"correct": value == quality.max(), "quality": f"{adapter.quality_name} {format_number(abs(value), 2)}"}


def _look_at_item(
    adapter: ComparisonAdapter,
    runs: Sequence[Any],
    names: Sequence[str],
    out: Path,
    item: int,
    description: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the attention of each run on an item, for those that can show it."""
    looks: list[dict[str, Any]] = []
    for run, name in zip(runs, names, strict=True):
        try:
            if prompt := description.get("prompt"):
                look = run.look(prompt, faithful=False).data if "look" in run.verbs else None
            else:
                look = adapter.look(run, out / "parts", item, adapter.measures_faithfulness)
        except (ValueError, RuntimeError, UserError):  # a missing attention map must not stop the report
            look = None
        if look is not None:
            looks.append({**look, "model": name, "title": f"test item {item + 1}, expected {description['truth']}"})
    return looks
