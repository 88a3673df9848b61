"""Write the tables of docs/recall.md from benchmarks/results.

python docs/recall_tables.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from result_blocks import ROOT, fill_block, read_result

PAGE = ROOT / "docs" / "recall.md"


def build_table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def describe(machine: Mapping[str, Any]) -> str:
    return f"{machine['processor']}, threads: {machine['threads']}, torch {machine['torch']}, {machine['date'][:10]}"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def interval_cells(row: Mapping[str, Any]) -> list[str]:
    """The mean, its interval, and the value of each seed."""
    seeds = ", ".join(f"{100 * value:.1f}" for value in row["values"])
    return [percent(row["mean"]), f"{100 * row['low']:.1f} to {percent(row['high'])}", seeds]


def points(gain: Mapping[str, Any]) -> str:
    return f"{100 * gain['mean']:+.1f} ({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})"


def books() -> str:
    rows = []
    for name, data in read_result("recall").items():
        unknown = ", ".join(percent(fraction) for fraction in data["unknown_answered"].values())
        row = [f"`{name}`", percent(data["exact"]), f"{data['ece']:.3f}", percent(data["answered"])]
        row += [percent(data["risk"]), unknown, f"{data['train_minutes']:.0f} min", f"{data['parameters']:,}"]
        rows.append([*row, describe(data["machine"])])
    columns = ["recipe", "correct", "calibration error", "answered", "wrong among these", "unknown names answered"]
    return build_table([*columns, "training", "parameters", "measured on"], rows)


def ablations() -> str:
    data = read_result("recall_ablations")
    results = {**data["rows"], "commonest place": data["commonest place"]}
    rows = [
        [name, *interval_cells(row), "–" if name == "dot" else points(data["against dot"][name])]
        for name, row in sorted(results.items(), key=lambda item: -item[1]["mean"])
    ]
    head = f"{data['steps']} steps each ({describe(data['machine'])}).\n\n"
    columns = ["model", "correct", "95 % interval", "seeds", "points more than dot, seed by seed"]
    return head + build_table(columns, rows)


def people() -> str:
    data = read_result("recall_people")
    phrasings = [[name, *interval_cells(row)] for name, row in data["ways"].items()]
    sizes = [
        [f"width {dim}", *interval_cells(row["exact"]), f"{row['parameters']:,}", f"{row['bits']:,}"]
        for dim, row in data["sizes"].items()
    ]
    head = f"{data['people']:,} people, {data['steps']} steps each ({describe(data['machine'])}).\n\n"
    seeds = ["95 % interval", "seeds"]
    return "\n\n".join(
        [
            head.strip(),
            build_table(["training text", "correct", *seeds], phrasings),
            build_table(["model", "correct", *seeds, "parameters", "bits stored"], sizes),
        ]
    )


def main() -> None:
    for name, build_block in (("books", books), ("ablations", ablations), ("people", people)):
        with contextlib.suppress(FileNotFoundError):  # not measured yet
            fill_block(PAGE, name, build_block())


if __name__ == "__main__":
    main()
