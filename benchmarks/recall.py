"""Recall of birthplaces: train a recipe, and measure it on people of train.tsv who were set aside.

    python benchmarks/recall.py open             # about 3 minutes; writes benchmarks/results/recall.json
    python benchmarks/recall.py closed           # about an hour
    python benchmarks/recall.py closed --run runs/birthplace-closed    # measure a run that is there
    python benchmarks/recall.py closed --seconds 60 --quick            # to see that it runs; writes nothing

Exact match; the expected calibration error and what abstention does, each fold of people by the others; the share of
answers for people who are not in the text, at the level that keeps 90 % of the right ones: names put together from
those in the text, and invented ones of ten languages. For a closed book besides: whether a stranger is answered for
as the nearest known name is, and how far answers for invented names hang on their language.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import timing
import torch

from regard.config.settings import load_settings, merge_settings
from regard.tasks.base_run import Run
from regard.tasks.train import train

HOME = Path(__file__).parent.parent
RESULT = Path(__file__).parent / "results" / "recall.json"
RECIPES = ("closed", "open", "classical", "closed-labelled")


def trained(name: str, folder: Path, seconds: float | None) -> Any:
    tree = load_settings(HOME / "recipes" / f"birthplace-{name}.yaml")
    tree.pop("task")
    if seconds is not None:
        tree = merge_settings(tree, {"train": {"epochs": None, "steps": None, "budget": seconds}})
    return train("recall", settings=tree, out=folder, overwrite=True)


def measured(run: Any) -> dict[str, Any]:
    begun = time.perf_counter()
    found = run.cross_validate()
    if run.book == "closed":
        found |= run.unknown_name_metrics()
    config = run.config
    return found | {
        "parameters": config["parameters"],
        "steps": config["steps"],
        "train_minutes": round(config["seconds"] / 60, 1),
        "threads": torch.get_num_threads(),
        "measure_seconds": round(time.perf_counter() - begun, 1),
        "settings": {k: config["settings"][k] for k in ("model", "mix", "train")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Recall of birthplaces.")
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("--run", type=Path, help="measure this run instead of training one")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the run is kept")
    parser.add_argument("--seconds", type=float, help="train for so long instead of what the recipe says")
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    args = parser.parse_args()
    run = (
        Run.load(args.run) if args.run else trained(args.recipe, args.runs / f"birthplace-{args.recipe}", args.seconds)
    )
    found = measured(run)
    for name, value in found.items():
        if name not in ("reliability", "settings", "bias", "similarity"):
            print(f"{name:18} {value}")
    for name in ("similarity", "bias"):
        if name in found:
            print(name, json.dumps(found[name], ensure_ascii=False))
    if not args.quick:
        whole = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
        RESULT.write_text(json.dumps({**whole, args.recipe: {"machine": timing.machine(), **found}}, indent=2) + "\n")
        print(f"written: {RESULT}")


if __name__ == "__main__":
    main()
