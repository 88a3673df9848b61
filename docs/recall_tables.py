"""Writes the tables of docs/recall.md from benchmarks/results.

python docs/recalled.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from page import ROOT, fill, result

PAGE = ROOT / "docs" / "recall.md"


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def where(machine: Mapping[str, Any]) -> str:
    return f"{machine['processor']}, threads: {machine['threads']}, torch {machine['torch']}, {machine['date'][:10]}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def interval(found: Mapping[str, Any]) -> list[str]:
    """The mean, its interval, and what each seed gave."""
    seeds = ", ".join(f"{100 * value:.1f}" for value in found["values"])
    return [percent(found["mean"]), f"{100 * found['low']:.1f} to {percent(found['high'])}", seeds]


def points(gain: Mapping[str, Any]) -> str:
    return f"{100 * gain['mean']:+.1f} ({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})"


def books() -> str:
    rows = []
    for name, found in result("recall").items():
        strangers = ", ".join(percent(share) for share in found["strangers"].values())
        row = [f"`{name}`", percent(found["exact"]), f"{found['ece']:.3f}", percent(found["answered"])]
        row += [percent(found["risk"]), strangers, f"{found['train_minutes']:.0f} min", f"{found['parameters']:,}"]
        rows.append([*row, where(found["machine"])])
    heads = ["recipe", "right", "calibration error", "answered", "wrong among these", "strangers answered", "training"]
    return table([*heads, "parameters", "measured on"], rows)


def ablations() -> str:
    found = result("recall_ablations")
    every = {**found["rows"], "commonest place": found["commonest place"]}
    rows = [
        [name, *interval(row), "–" if name == "dot" else points(found["against dot"][name])]
        for name, row in sorted(every.items(), key=lambda r: -r[1]["mean"])
    ]
    head = f"{found['steps']} steps each ({where(found['machine'])}).\n\n"
    return head + table(["model", "right", "95 % interval", "seeds", "points more than dot, seed by seed"], rows)


def people() -> str:
    found = result("recall_people")
    said = [[name, *interval(row)] for name, row in found["ways"].items()]
    held = [
        [f"width {dim}", *interval(row["exact"]), f"{row['parameters']:,}", f"{row['bits']:,}"]
        for dim, row in found["sizes"].items()
    ]
    head = f"{found['people']:,} people, {found['steps']} steps each ({where(found['machine'])}).\n\n"
    seeds = ["95 % interval", "seeds"]
    return (
        head
        + table(["what is read", "right", *seeds], said)
        + "\n\n"
        + table(["model", "right", *seeds, "parameters", "bits held"], held)
    )


def main() -> None:
    for name, made in (("books", books), ("ablations", ablations), ("people", people)):
        with contextlib.suppress(FileNotFoundError):  # not measured yet
            fill(PAGE, name, made())


if __name__ == "__main__":
    main()
