"""Do the hops of structured attention look at different words? With the penalty of Lin et al. 2017 and without.

    python benchmarks/hops.py                  # writes benchmarks/results/hops.json

The self-attentive model with eight hops on generated reviews (regard/data/reviews.py), three seeds; on 200 unseen
reviews the overlap of the hops (the mean of A Aᵀ off its diagonal), what a hop shares with itself, and accuracy on
2,000. Hops that are all alike overlap as much as each does with itself: the ratio of the two says how alike they are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from seeds import accuracy, interval, percent, trained

from regard.data.synthetic.reviews import Review, generate_reviews
from regard.tasks.classify.run import Classifier
from regard.training import environment

PENALTIES = (0.0, 0.01, 0.1)


def overlaps(run: Classifier, reviews: Sequence[Review]) -> tuple[float, float]:
    """The mean overlap of different hops, and of each with itself."""
    looks = [run.look(review.text, faithful=False).data["hops"]["overlap"] for review in reviews]
    return float(np.mean([one["between"] for one in looks])), float(np.mean([one["own"] for one in looks]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few steps, one seed, nothing written")
    quick = parser.parse_args().quick
    result: dict[str, Any] = {"machine": environment.describe_machine(), "hops": 8, "compared_on": 200, "penalties": {}}
    for penalty in PENALTIES:
        settings = {
            "model": {"dropout": 0.1, "hops": 8, "penalty": penalty},
            "train": {"lr": 2e-3, "steps": 4 if quick else 500, "evaluate_every": 4 if quick else 50},
            "data": {"batch_tokens": 2048, "valid_fraction": 0.05},
        }
        reached, between, own = [], [], []
        for seed in range(1 if quick else 3):
            made = generate_reviews(400 if quick else 14_000, seed)
            cut = len(made) * 6 // 7
            run = trained("self-attentive", made[:cut], settings, seed)
            shared, alone = overlaps(run, made[cut : cut + (5 if quick else 200)])
            reached.append(accuracy(run, made[cut:]))
            between.append(shared)
            own.append(alone)
        row = {
            "overlap": interval(between),
            "own": interval(own),
            "alike": interval([b / o for b, o in zip(between, own, strict=True)]),
            "accuracy": interval(reached),
        }
        result["penalties"][str(penalty)] = row
        said = {key: f"{row[key]['mean']:.3f} ({row[key]['low']:.3f} to {row[key]['high']:.3f})" for key in row}
        print(
            f"penalty {penalty:<5} overlap {said['overlap']}   with itself {said['own']}   accuracy "
            f"{percent(row['accuracy'])}",
            flush=True,
        )
    if not quick:
        Path("benchmarks/results/hops.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
