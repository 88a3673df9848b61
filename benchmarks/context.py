"""Texts in which a sentence can only be understood after the one before it: plain and context-aware HAN.

    python benchmarks/context.py               # writes benchmarks/results/context.json

One sentence names a thing, the next lists twelve things in four colours, each colour three times; the label is the
colour of the thing named (regard/data/contexts.py). Chance is 25 %. All learn from 12,000 texts with lists of one to
twelve things in colours drawn freely and are measured on 1,000 texts of the kind above, three seeds each. Plain HAN
turns the list into a vector before it is compared with the question, so it must keep all of it: what it reaches hangs
on its width and on how long it learns. It gets the settings of the context-aware one, and, to be fair, twice the
width and twice the steps.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from seeds import accuracy, interval, percent, trained

from regard.data.synthetic.contexts import generate_contexts
from regard.training import environment

SMALL = {"embed": 32, "hidden": 24, "attention": 48, "dropout": 0.0, "init_std": 1.0}
WIDE = {"embed": 64, "hidden": 48, "attention": 96, "dropout": 0.0, "init_std": 1.0}
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "context-han": ("context-han", SMALL, 800),
    "han": ("han", SMALL, 800),
    "han, twice as wide, twice as long": ("han", WIDE, 1600),
    "bag of words (nb-svm)": ("nb-svm", {}, 0),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few steps, one seed, nothing written")
    quick = parser.parse_args().quick
    seeds = 1 if quick else 3
    result: dict[str, Any] = {
        "machine": environment.describe_machine(),
        "chance": 0.25,
        "measured_on": 1000,
        "models": {},
    }
    for title, (model, size, steps) in CASES.items():
        settings: dict[str, Any] = {"model": size, "data": {"valid_fraction": 0.05}}
        if steps:
            settings["train"] = {"steps": 5 if quick else steps, "lr": 5e-3, "evaluate_every": 5 if quick else 200}
        reached, parameters = [], 0
        for seed in range(seeds):
            run = trained(
                model,
                generate_contexts(300 if quick else 12_000, seed, list_length=(1, 12), balanced=False),
                settings,
                seed,
            )
            reached.append(accuracy(run, generate_contexts(100 if quick else 1000, 1000 + seed)))
            parameters = run.config["parameters"]
        row = {"accuracy": interval(reached), "parameters": parameters, "steps": steps, "settings": size}
        result["models"][title] = row
        print(f"{title:36} {percent(row['accuracy'])}   {parameters:>8,} parameters", flush=True)
    if not quick:
        Path("benchmarks/results/context.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
