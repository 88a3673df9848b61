"""How good the recipes for translation are: each is trained as it stands, and its translations are measured.

    python benchmarks/translators.py multi30k-transformer       # writes benchmarks/results/translate-RECIPE.json
    python benchmarks/translators.py scan-simple --seeds 3

Multi30k: BLEU, chrF and TER by sacrebleu on the validation files, which also chose the weights that are kept (by their
loss), so these are a little too good; the official test part is not touched. SCAN: the share of commands of the test
file of the split whose actions are right from the first to the last, by length of the actions. Runs are kept under
--runs, and one that is finished is only measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from timing import machine

import regard
from regard.config.settings import load_settings, merge_settings, parse_overrides
from regard.data import parallel_text

ROOT = Path(__file__).parent.parent
DATA = Path("../shared/data")
MEASURED = {
    "multi30k-transformer": ([DATA / "multi30k/val.en.gz", DATA / "multi30k/val.de.gz"], 5),
    "multi30k-rnn": ([DATA / "multi30k/val.en.gz", DATA / "multi30k/val.de.gz"], 5),
    "scan-simple": ([DATA / "scan/simple.test.tsv.gz"], 1),
}
"""The files to measure on, and the beams."""


def trained(recipe: str, seed: int, changed: list[str], runs: Path) -> tuple[Any, float]:
    settings = merge_settings(load_settings(ROOT / "recipes" / f"{recipe}.yaml"), parse_overrides(changed))
    settings.pop("task")
    folder = runs / f"{recipe}-{seed}"
    begun = time.perf_counter()
    run = regard.train("translate", settings={**settings, "seed": seed}, out=folder, resume=folder.exists())
    return run, run.config.get("seconds", time.perf_counter() - begun)


def by_length(run: Any, files: list[Path], beams: int) -> dict[str, Any]:
    """The share that is right, by the number of words of the reference."""
    texts = parallel_text.read_parallel_texts(files, source=run.settings.data.source, target=run.settings.data.target)
    found = run.translate(texts.sources, beam=beams)
    right: dict[int, list[bool]] = defaultdict(list)
    for said, wanted in zip(found, texts.targets, strict=True):
        right[len(wanted.split())].append(said.text.split() == wanted.split())
    return {str(n): {"count": len(r), "right": sum(r) / len(r)} for n, r in sorted(right.items())}


def measure(recipe: str, seeds: int, changed: list[str], runs: Path) -> dict[str, Any]:
    files, beams = MEASURED[recipe]
    rows = []
    for seed in range(seeds):
        run, seconds = trained(recipe, seed, changed, runs)
        begun = time.perf_counter()
        found = run.evaluate([str(file) for file in files], beam=beams)
        row = {"seed": seed, "seconds": seconds, "decoding_seconds": time.perf_counter() - begun, **found}
        if recipe.startswith("scan"):
            row["by_length"] = by_length(run, files, beams)
        rows.append(row)
        shown = ", ".join(f"{name} {found[name]:.2f}" for name in ("bleu_lc", "bleu", "chrf", "ter"))
        print(f"{recipe} seed {seed}: {shown}, exact {found['exact']:.4f}, {seconds:.0f} s", flush=True)
    chief = "exact" if recipe.startswith("scan") else "bleu_lc"
    values = [row[chief] for row in rows]
    return {
        "recipe": recipe,
        "changed": changed,
        "measured_on": [file.name for file in files],
        "parameters": run.config["parameters"],
        "steps": run.config["steps"],
        chief: {"mean": statistics.mean(values), "least": min(values), "most": max(values)},
        "seeds": rows,
        "machine": machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+", choices=MEASURED)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of another value")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--no-result", action="store_true", help="write no result file")
    given = parser.parse_args()
    runs = given.runs.absolute()
    os.chdir(ROOT)  # recipes name their data from here
    for recipe in given.recipes:
        result = measure(recipe, given.seeds, given.set, runs)
        if not given.no_result:
            target = Path(__file__).parent / "results" / f"translate-{recipe}.json"
            target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
