"""Characters of tinyshakespeare: nanoGPT's configuration for a CPU and ours, in turns, in one run.

    python benchmarks/shakespeare.py             # 6 minutes on 2 cores; writes benchmarks/results/shakespeare.json
    python benchmarks/shakespeare.py --ablation  # what each part adds; writes .../shakespeare-ablation.json

Three recipes, each trained by `regard train language` in a process of its own, in an order drawn anew every round:

    nanogpt   nanoGPT's model, batch, steps and AdamW in regard's loop, which is as fast as nanoGPT's own
              (benchmarks/throughput.py)
    quick     what nanoGPT's configuration reaches, sooner
    long      the most in the time that nanoGPT's configuration takes

Seconds are those of the training loop, evaluation on the validation part (the last tenth) included. The loss is in nats
a character, windows as long as in training, none overlapping: the first character of a window has nothing before it.

The ablation takes one part at a time out of the quick recipe, at the same number of steps: n-grams, Muon, rotary
positions; and gives the time that each takes.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import timing

ROOT = Path(__file__).parent.parent
RECIPES = {"nanogpt": "shakespeare-nanogpt", "quick": "shakespeare-quick", "long": "shakespeare"}
TARGETS = {"quick": "1.88 in a fifth of nanogpt's seconds", "long": "1.58 in nanogpt's seconds"}
ABLATION = {
    "quick": [],
    "pairs and triples only": ["model.ngrams=3"],
    "pairs only": ["model.ngrams=2"],
    "no n-grams": ["model.name=gpt", "model.bias=false", "model.positions=rotary"],
    "AdamW": ["train.optimizer=adamw"],
    "AdamW, a third of the rate": ["train.optimizer=adamw", "train.lr=0.0023"],
    "sinusoidal positions": ["model.positions=sinusoidal"],
    "4 layers": ["model.layers=4"],
    "1 layer": ["model.layers=1"],
}


def train(recipe: str, changes: list[str]) -> dict[str, Any]:
    """The run's own account: seconds, steps, validation loss, parameters."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        file = ROOT / "recipes" / f"{recipe}.yaml"
        if "model.name=gpt" in changes:  # whose settings are others
            import yaml

            tree = yaml.safe_load(file.read_text())
            tree["model"] = {k: v for k, v in tree["model"].items() if k not in ("ngrams", "table")}
            file = Path(folder) / "recipe.yaml"
            file.write_text(yaml.safe_dump(tree))
        command = [sys.executable, "-m", "regard.cli", "train", "language", "--config", str(file), "--out", str(out)]
        for change in changes:
            command += ["--set", change]
        subprocess.run([*command, "--quiet"], check=True, cwd=ROOT)
        config = json.loads((out / "config.json").read_text())
    return {
        "loss": round(config["metrics"]["loss"], 4),
        "seconds": round(config["seconds"], 2),
        "steps": config["steps"],
        "parameters": config["parameters"],
    }


def compare(rounds: int) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in RECIPES}
    order, draw = list(RECIPES), random.Random(0)
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            found[name].append(train(RECIPES[name], []))
            print(name, found[name][-1], flush=True)
    times = {name: [row["seconds"] for row in rows] for name, rows in found.items()}
    return {
        "recipes": {
            name: {**rows[0], "seconds": statistics.median(times[name]), "all_seconds": times[name]}
            for name, rows in found.items()
        },
        "time_over_nanogpt": {name: timing.ratio(times, name, "nanogpt") for name in ("quick", "long")},
        "asked": TARGETS,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ablation", action="store_true")
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": timing.machine()}
    if given.ablation:
        result["changes"] = {}
        for name, changes in ABLATION.items():
            result["changes"][name] = train("shakespeare-quick", changes)
            print(name, result["changes"][name], flush=True)
    else:
        result |= compare(given.rounds)
        print(json.dumps(result["time_over_nanogpt"], indent=2))
    file = "shakespeare-ablation.json" if given.ablation else "shakespeare.json"
    (ROOT / "benchmarks" / "results" / file).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
