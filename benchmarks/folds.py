"""How good a recipe for sentences is on all of its training file: ten folds, each named by nets that have not seen it.

    python benchmarks/folds.py trec --jobs 2           # writes benchmarks/results/folds-trec.json

Beside benchmarks/documents.py, which sets one fifth aside: here nine tenths of the labels are trained on, nearer to
what the official test part is judged with, and every item is measured, so that chance weighs less (Kim 2014 measures MR
in this way). Each fold has a seed of its own. The words are pretrained on text that has nothing of the file at all
(about 25 minutes, kept in --words), and NB-SVM is fitted to the same folds. The official test part is not touched.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from documents import DATA, RECIPES, paired, pretrained, right, settings_of, taken, without
from timing import machine

from regard.data.read_table import read_table

FOLDS = 10


def parted(count: int) -> list[np.ndarray]:
    return np.array_split(np.random.default_rng(2026).permutation(count), FOLDS)


def one(fold: int, name: str, words: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Which items of a fold the recipe and NB-SVM name rightly, and the seconds the recipe took."""
    table = read_table(DATA / "sentences" / f"{name}.train.txt.gz")
    rows = parted(len(table.texts))
    aside = taken(table, rows[fold])
    others = np.sort(np.concatenate([part for i, part in enumerate(rows) if i != fold]))
    train = without(taken(table, others), aside.texts)
    settings = settings_of(RECIPES[name][-1])
    settings["warm_start"] = words
    settings["train"]["threads"] = 1
    good, _, seconds = right(train, aside, settings["model"]["name"], settings, fold)
    base, _, _ = right(train, aside, "nb-svm", {"data": {"valid_fraction": 0.01}}, fold)
    print(f"fold {fold}: {good.mean():.4f}, NB-SVM {base.mean():.4f}, {seconds:.0f} s", flush=True)
    return good, base, seconds


def measure(name: str, words: Path, jobs: int) -> dict[str, Any]:
    begun = time.perf_counter()
    run = str(pretrained(words, aside=name).resolve())
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(partial(one, name=name, words=run), range(FOLDS)))
    good, base = (np.concatenate([row[i] for row in found]) for i in (0, 1))
    by_fold = [{"accuracy": float(a.mean()), "nb-svm": float(b.mean()), "seconds": s} for a, b, s in found]
    print(f"{RECIPES[name][-1]}: {good.mean():.4f} of {len(good):,}, NB-SVM {base.mean():.4f}")
    return {
        "recipe": RECIPES[name][-1],
        "measured on": len(good),
        "accuracy": float(good.mean()),
        "standard error": float(np.sqrt(good.mean() * (1 - good.mean()) / len(good))),
        "nb-svm": float(base.mean()),
        **paired(good, base),
        "folds": by_fold,
        "jobs": jobs,
        "minutes": (time.perf_counter() - begun) / 60,
        **machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=("mr", "trec"))
    parser.add_argument("--words", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    words = given.words or Path(f"runs/words-without-{given.set}")
    target = Path(__file__).parent / "results" / f"folds-{given.set}.json"
    target.write_text(json.dumps(measure(given.set, words, given.jobs), indent=1) + "\n")


if __name__ == "__main__":
    main()
