"""How much of each model's attention falls on the words that are known to decide.

    python benchmarks/evidence.py              # writes benchmarks/results/evidence.json

Generated reviews (regard/data/reviews.py): one sentence decides, and which of its words is known. 12,000 to learn from,
2,000 to measure accuracy on; the attention that reaches the output is compared with the evidence on 300 of them. Beside
it stands the share that attention spread evenly over all tokens would put there, and the accuracy of bags of words.
Settings were chosen by trying a few on reviews of this generator: they make each model learn in about a minute.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from seeds import accuracy, interval, percent, trained

from regard.data.synthetic.reviews import generate_reviews
from regard.demo.reviews_demo import measure_evidence
from regard.training import environment

LIGHT = {"dropout": 0.1}
ROTARY = {"dim": 64, "hidden": 128, "positions": "rotary", "dropout": 0.0}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "han": (LIGHT, {"lr": 4e-3, "steps": 400, "evaluate_every": 50}),
    "context-han": (LIGHT, {"lr": 4e-3, "steps": 400, "evaluate_every": 50}),
    "self-attentive": ({**LIGHT, "penalty": 0.01}, {"lr": 2e-3, "steps": 500, "evaluate_every": 50}),
    "transformer": (ROTARY, {"lr": 2e-3, "steps": 1400, "evaluate_every": 100}),
    "bilstm": (LIGHT, {"lr": 4e-3, "steps": 400, "evaluate_every": 50}),
    "tfidf": ({}, {}),
    "nb-svm": ({}, {}),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few steps, one seed, nothing written")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    quick, seeds = given.quick, 1 if given.quick else given.seeds
    result: dict[str, Any] = {"machine": environment.describe_machine(), "compared_on": 300, "models": {}}
    for name, (size, length) in CASES.items():
        settings: dict[str, Any] = {"model": size}
        if length:
            settings["train"] = {**length, **({"steps": 4, "evaluate_every": 4} if quick else {})}
            settings["data"] = {"batch_tokens": 2048, "valid_fraction": 0.05}
        reached, shares, even = [], [], []
        for seed in range(seeds):
            made = generate_reviews(400 if quick else 14_000, seed)
            cut = len(made) * 6 // 7
            run = trained(name, made[:cut], settings, seed)
            reached.append(accuracy(run, made[cut:]))
            if length:
                share, spread = measure_evidence(run, made[cut : cut + (5 if quick else 300)])
                shares.append(share)
                even.append(spread)
        row: dict[str, Any] = {"accuracy": interval(reached), "settings": settings}
        if shares:
            row |= {"evidence": interval(shares), "even": interval(even)}
        result["models"][name] = row
        said = f"{percent(row['evidence'])} (evenly {percent(row['even'])})" if shares else "-"
        print(f"{name:16} accuracy {percent(row['accuracy'])}   attention on the evidence {said}", flush=True)
    if not quick:
        Path("benchmarks/results/evidence.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
