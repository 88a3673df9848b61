"""Where designs disagree: how often each pair does, and test items on which some are right and some are wrong, opened
in the attention view."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.compare.contests.base import contest
from regard.compare.prepare import Plan, folder_of, score_of
from regard.compare.scoring import opened, stats_of

EXAMPLES, BESIDE = 4, 4
"""Items that are shown, and designs beside each other."""
EMPTY: dict[str, Any] = {"matrix": [], "sentences": [], "looks": [], "spoken": []}


def disagreements(plan: Plan, found: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """By the first seed of each design: `matrix` of shares, `sentences` about it, `looks` for the viewer, and where
    there is nothing to look at `spoken`: what each said."""
    entries = {entry.design.name: entry for entry in plan.entries}
    files = {row["name"]: score_of(out, entries[row["name"]].design, row["seeds"][0]) for row in found["rows"]}
    said = {name: _said(file) for name, file in files.items()}
    if len(files) < 2 or not all(said.values()) or any(one is None for row in said.values() for one in row):
        return EMPTY
    right = {name: _right(file) for name, file in files.items()}
    names = list(files)
    differ = np.array([[[a != b for a, b in zip(said[m], said[n], strict=True)] for n in names] for m in names])
    shares = differ.mean(-1)
    matrix = [
        {"name": name, "cells": ["" if i == j else f"{100 * shares[i, j]:.1f} %" for j in range(len(names))]}
        for i, name in enumerate(names)
    ]
    truth = np.stack([right[name] for name in names])  # (designs, items)
    chosen = choose(truth)
    shown = contest(plan.asked.task).items(out / "parts", chosen)
    looks, spoken = [], []
    for item, about in zip(chosen, shown, strict=True):
        seen = _looks(plan, found, out, item, about)
        if seen:
            looks += seen
        each = [{"name": n, "said": str(said[n][item]), "right": bool(right[n][item])} for n in names]
        spoken.append({"text": about["text"], "truth": about["truth"], "each": each, "item": item})
    return {"matrix": matrix, "sentences": _sentences(names, truth), "looks": looks, "spoken": spoken}


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


def _sentences(names: list[str], right: np.ndarray) -> list[str]:
    both, none = right.all(0).mean(), (~right).all(0).mean()
    said = [f"All designs are right on {both:.1%} of the test items, all are wrong on {none:.1%}."]
    alone = [(name, int((right[i] & (right.sum(0) == 1)).sum())) for i, name in enumerate(names)]
    said += [f"{name} alone is right on {count:,}." for name, count in alone if count]
    return said


def _looks(
    plan: Plan, found: Mapping[str, Any], out: Path, item: int, about: Mapping[str, Any]
) -> list[dict[str, Any]]:
    judge, entries = contest(plan.asked.task), {entry.design.name: entry for entry in plan.entries}
    looks: list[dict[str, Any]] = []
    for row in found["rows"]:
        if len(looks) == BESIDE:
            break
        run = opened(folder_of(out, entries[row["name"]].design, row["seeds"][0]))
        try:
            seen = judge.look(run, out / "parts", item, True)
        except (ValueError, RuntimeError):  # what cannot be shown leaves the report as it is
            seen = None
        if seen is not None:
            looks.append({**seen, "model": row["name"], "title": f"test item {item + 1}, truly {about['truth']}"})
    return looks


def _said(file: Path) -> list[Any]:
    lines = file.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line).get("said") for line in lines if line]


def _right(file: Path) -> np.ndarray:
    """Whether each item is all right: the measure of that, where the task has one."""
    for name in ("accuracy", "exact"):
        try:
            return stats_of(file, name)[:, 0] > 0.5
        except KeyError:
            continue
    return np.zeros(0, bool)
