"""Generated scenes: exact captions and pointing, on known pairs of things (valid), on pairs never seen together
(unseen), and, harder, on things never seen (novel: a colour with a shape).

    python benchmarks/scenes.py                # three seeds, five minutes each at most; writes results/scenes.json
    python benchmarks/scenes.py --seeds 1 --count 400 --set train.steps=10 --dry     # to see that it runs; no file

Each seed draws its own scenes. Pointing: of the attention that entered the state from which a word is said, the share
that falls on the box of what the word names, in the mean over colours and shapes of true sentences; even attention has
the share of the picture that the box covers, which stands beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from timing import machine

import regard
from regard.config.settings import load_settings, merge_settings, parse_overrides
from regard.data.synthetic.scene_files import write_scenes

ROOT = Path(__file__).parent.parent
PARTS = ("valid", "unseen", "novel")
RESULT = Path(__file__).parent / "results" / "scenes.json"


def measure(seed: int, count: int, changed: list[str]) -> dict[str, Any]:
    settings = merge_settings(load_settings(ROOT / "recipes" / "scenes.yaml"), parse_overrides(changed))
    settings.pop("task")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        begun = time.perf_counter()
        write_scenes(home, count, seed=seed)
        made = time.perf_counter() - begun
        for part in ("train", "valid"):
            settings["data"][part] = [str(home / f"{part}.zip"), str(home / f"{part}.captions.tsv")]
        begun = time.perf_counter()
        run = regard.train("caption", settings={**settings, "seed": seed}, out=home / "run")
        row: dict[str, Any] = {"seed": seed, "writing_seconds": made, "seconds": time.perf_counter() - begun}
        row |= {"parameters": run.config["parameters"], "steps": run.config["steps"]}
        for part in PARTS:
            files = home / f"{part}.zip", home / f"{part}.captions.tsv"
            found = run.evaluate(*files, boxes=home / f"{part}.boxes.tsv", beam=1)
            row[part] = {key: found[key] for key in ("rows", "exact", "pointing", "even", "loss", "accuracy")}
    shown = ", ".join(f"{p} exact {row[p]['exact']:.4f} pointing {row[p]['pointing']:.4f}" for p in PARTS)
    print(f"seed {seed}: {shown}, {row['seconds']:.0f} s", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--count", type=int, default=8000)
    parser.add_argument("--set", action="append", default=[], dest="changed")
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    rows = [measure(seed, args.count, args.changed) for seed in range(args.seeds)]
    least = {name: min(row["unseen"][name] for row in rows) for name in ("exact", "pointing")}
    print(f"unseen pairs, the least of {len(rows)} seeds: exact {least['exact']:.4f}, pointing {least['pointing']:.4f}")
    if not args.dry:
        tree = {"scenes": args.count, "changed": args.changed, "least": least, "seeds": rows, "machine": machine()}
        RESULT.write_text(json.dumps(tree, indent=1) + "\n")


if __name__ == "__main__":
    main()
