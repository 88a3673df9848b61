"""Write the tables of docs/comparisons.md from benchmarks/results/compare-NAME.json, the `results.json` of
`regard compare --config recipes/compare-NAME.yaml`.

python docs/comparison_tables.py
"""

from __future__ import annotations

import re
from typing import Any

from result_blocks import ROOT, fill_block, read_result

PAGE = ROOT / "docs" / "comparisons.md"
PERCENT_METRICS = ("accuracy", "exact")
OPTIONAL_COLUMNS = {"evidence": "evidence", "faithfulness": "faithfulness"}


def format_metric(value: float, metric: str) -> str:
    return f"{100 * value:.1f} %" if metric in PERCENT_METRICS else f"{value:.1f}"


def format_cells(row: dict[str, Any], metric: str, optional: list[str]) -> list[str]:
    seeds = ", ".join(format_metric(value, metric).removesuffix(" %") for value in row["values"])
    interval = f"{format_metric(row['low'], metric).removesuffix(' %')} to {format_metric(row['high'], metric)}"
    cells = [
        str(row["rank"]),
        row["name"],
        format_metric(row["mean"], metric),
        interval,
        seeds,
        f"{row['steps'] or '–'}",
    ]
    cells += [f"{row['seconds']:.0f} s", f"{1e3 * row['latency']:.1f} ms", f"{row['parameters']:,}"]
    cells += ["–" if row[key] is None else f"{row[key]:.2f}" for key in optional]
    return [*cells, row["vs_best"].replace("significant", "is significant") or "–"]


def build_table(name: str) -> str:
    data = read_result(name)
    metric, items, machine = data["metric"], data["items"], data["machine"]
    optional = [key for key in OPTIONAL_COLUMNS if any(row.get(key) is not None for row in data["rows"])]
    columns = ["rank", "design", metric, "95 % interval", "seeds", "steps", "training", "latency", "parameters"]
    columns += [*(OPTIONAL_COLUMNS[key] for key in optional), "difference from the first"]
    where = f"{machine['cpu']}, threads: {machine['threads']}, torch {machine['torch']}, {machine['date']}"
    parts = f"{items['train']:,} training examples, {items['test']:,} test examples"
    lines = [f"    regard compare --config recipes/{name}.yaml --out {name.replace('-', 'd/', 1)}", ""]
    lines += [f"{data['budget']} each, {data['seeds']} seeds; {parts} ({where}).", ""]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(format_cells(row, metric, optional)) + " |" for row in data["rows"]]
    return "\n".join(lines)


def main() -> None:
    for name in re.findall(r"<!-- (compare-\S+) -->", PAGE.read_text(encoding="utf-8")):
        fill_block(PAGE, name, build_table(name))


if __name__ == "__main__":
    main()
