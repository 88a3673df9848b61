"""Writes the tables of docs/compared.md from benchmarks/results/compare-NAME.json, each of which is the `results.json`
of `regard compare --config recipes/compare-NAME.yaml`.

python docs/compared.py
"""

from __future__ import annotations

import re
from typing import Any

from page import ROOT, fill, result

PAGE = ROOT / "docs" / "compared.md"
SHARES = ("accuracy", "exact")


def quality(value: float, measure: str) -> str:
    return f"{100 * value:.1f} %" if measure in SHARES else f"{value:.1f}"


def told(row: dict[str, Any], measure: str, shown: list[str]) -> list[str]:
    seeds = ", ".join(quality(value, measure).removesuffix(" %") for value in row["values"])
    around = f"{quality(row['low'], measure).removesuffix(' %')} to {quality(row['high'], measure)}"
    cells = [str(row["rank"]), row["name"], quality(row["mean"], measure), around, seeds, f"{row['steps'] or '–'}"]
    cells += [f"{row['seconds']:.0f} s", f"{1e3 * row['latency']:.1f} ms", f"{row['parameters']:,}"]
    cells += ["–" if row[key] is None else f"{row[key]:.2f}" for key in shown]
    return [*cells, row["more"] or "–"]


def table(name: str) -> str:
    found = result(name)
    measure, items, machine = found["measure"], found["items"], found["machine"]
    heads = ["rank", "design", measure, "95 % interval", "seeds", "steps", "training", "answer", "parameters"]
    shown = [key for key in ("evidence", "faithful") if any(row.get(key) is not None for row in found["rows"])]
    heads += shown
    lines = [f"    regard compare --config recipes/{name}.yaml --out {name.replace('-', 'd/', 1)}", ""]
    parts = ", ".join(
        f"{items[part]:,} {said}" for part, said in (("train", "to learn from"), ("test", "to be measured on"))
    )
    where = f"{machine['cpu']}, threads: {machine['threads']}, torch {machine['torch']}, {machine['date']}"
    lines += [f"{found['budget']} each, {found['seeds']} seeds; {parts} ({where}).", ""]
    lines += ["| " + " | ".join([*heads, "to be told from the first"]) + " |", "|" + "---|" * (len(heads) + 1)]
    lines += ["| " + " | ".join(told(row, measure, shown)) + " |" for row in found["rows"]]
    return "\n".join(lines)


def main() -> None:
    for name in re.findall(r"<!-- (compare-\S+) -->", PAGE.read_text(encoding="utf-8")):
        fill(PAGE, name, table(name))


if __name__ == "__main__":
    main()
