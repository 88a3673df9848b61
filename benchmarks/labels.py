"""How much more labels would do: a recipe for documents trained on shares of its texts, measured on the part set aside.

    python benchmarks/labels.py trec --words RUN           # writes benchmarks/results/labels-trec.json

The official training parts are larger than what is trained on when a fifth is set aside (benchmarks/documents.py). Here
the recipe gets 1/2, 3/4 and all of the rest, the same items are measured, and a line through the logarithms of error
and of number says what all texts together would give: error(n) = a n^-b. That is a forecast, not a result. The plain
convolutional net (`kim-cnn` as it comes) stands beside it, since its result on official test parts is published.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from documents import RECIPES, ROOT, parts, pretrained, right, taken
from timing import machine

from regard.settings import load

SHARES = (0.5, 0.75, 1.0)


def measure(task: str, seeds: int, words: Path) -> dict[str, Any]:
    train, aside = parts(task)
    whole = len(train.texts) + len(aside.texts)
    recipe = RECIPES[task][-1]
    tuned = load(ROOT / "recipes" / f"{recipe}.yaml")
    tuned.pop("task")
    tuned["data"] = {k: v for k, v in tuned["data"].items() if k not in ("train", "text", "label")}
    tuned["origin"] = str(pretrained(words))
    plain = {"data": tuned["data"], "train": {"epochs": 12, "evaluate_every": 100_000}}
    rows: dict[str, Any] = {}
    for name, model, settings in ((recipe, tuned["model"]["name"], tuned), ("kim-cnn", "kim-cnn", plain)):
        row: dict[str, Any] = {}
        for share in SHARES:
            kept = [np.random.default_rng(seed).permutation(len(train.texts)) for seed in range(seeds)]
            some = [taken(train, np.sort(order[: round(share * len(order))])) for order in kept]
            found = [float(right(part, aside, model, settings, seed)[0].mean()) for seed, part in enumerate(some)]
            row[str(len(some[0].texts))] = found
            print(f"{name}, {len(some[0].texts):,} texts: {statistics.mean(found):.4f}", flush=True)
        rows[name] = {"accuracy": row, "forecast": forecast(row, whole)}
        print(f"{name}, forecast for {whole:,}: {rows[name]['forecast']:.4f}", flush=True)
    return {"measured on": len(aside.texts), "whole": whole, "models": rows, **machine()}


def forecast(row: dict[str, list[float]], whole: int) -> float:
    """By a straight line through log error over log number."""
    errors = [1 - statistics.mean(found) for found in row.values()]
    slope, level = np.polyfit(np.log([int(n) for n in row]), np.log(errors), 1)
    return float(1 - np.exp(level + slope * np.log(whole)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=("mr", "trec"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--words", type=Path, default=Path("runs/words-aside"))
    given = parser.parse_args()
    target = Path(__file__).parent / "results" / f"labels-{given.set}.json"
    target.write_text(json.dumps(measure(given.set, given.seeds, given.words), indent=1) + "\n")


if __name__ == "__main__":
    main()
