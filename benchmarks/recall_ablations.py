"""What recall from the weights hangs on: the same facts, the same mixture of sentences and questions, the same steps;
other attention, other positions, or no sentences at all. Exact match on people who were set aside, over seeds.

    python benchmarks/recall_ablations.py                  # two hours on one core; writes results/recall_ablations.json
    python benchmarks/recall_ablations.py --only dot,synthesizer-dense --seeds 3    # adds these rows to it
    python benchmarks/recall_ablations.py --steps 5 --seeds 1 --quick     # to see that it runs; writes nothing

The model is a plain GPT (no tables of n-grams, which would find a name without attention), 3 layers of width 128, BPE,
Muon. "commonest place" answers with the commonest training answer; "no sentences" is trained on questions alone, for
as many passes over them as the others make.
What is seen is written after each training, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import timing
from seeds import interval, percent

from regard.data.facts import read_facts, read_questions
from regard.tasks.recall.dataset import split_by_person
from regard.tasks.train import train

HOME = Path(__file__).parent.parent
DATA = HOME.parent / "shared" / "data" / "birthplace"
RESULT = Path(__file__).parent / "results" / "recall_ablations.json"

LENGTH = 256
ROWS: dict[str, dict[str, Any]] = {
    "dot": {"model": {"mechanism": "dot", "positions": "rotary"}},
    "dot, learned positions": {"model": {"mechanism": "dot", "positions": f"learned:length={LENGTH}"}},
    "Shaw": {"model": {"mechanism": "relative:clip=16", "positions": "none"}},
    "additive": {"model": {"mechanism": "additive", "positions": f"learned:length={LENGTH}"}},
    "synthesizer-dense": {"model": {"mechanism": f"synthesizer-dense:length={LENGTH}", "positions": "none"}},
    "synthesizer-random": {"model": {"mechanism": f"synthesizer-random:length={LENGTH}", "positions": "none"}},
    "synthesizer-factorized": {"model": {"mechanism": f"synthesizer-factorized:length={LENGTH}", "positions": "none"}},
    "synthesizer-factorized-dense": {
        "model": {"mechanism": f"synthesizer-factorized-dense:length={LENGTH}", "positions": "none"}
    },
    "no sentences": {
        "model": {"mechanism": "dot", "positions": "rotary"},
        "mix": {"sentences": 0, "phrases": 0, "clozes": 0, "unknown_names": 0.0},
    },
    "with n-gram tables": {"model": {"name": "ngram-gpt", "mechanism": "dot", "positions": "rotary"}},
}
SHORTER = {"no sentences": 20}
"""Steps divided by this: without sentences an epoch is so much shorter."""


def settings(row: str, steps: int) -> dict[str, Any]:
    own = ROWS[row]
    sizes = {"name": "gpt", "dim": 128, "layers": 3, "heads": 4}
    if own["model"].get("name") != "ngram-gpt":
        sizes["bias"] = False
    return {
        "book": "closed",
        "data": {"batch_tokens": 3072},
        "tokenizer": {"kind": "bpe", "vocab_size": 6000},
        "model": {**sizes, **own["model"]},
        "mix": own.get("mix", {}),
        "train": {
            "steps": max(1, steps // SHORTER.get(row, 1)),
            "optimizer": "muon",
            "lr": 0.005,
            "weight_decay": 0.05,
            "warmup": 0.02,
            "decay": "linear",
            "evaluate_every": 10_000,
        },
    }


def one(row: str, seed: int, steps: int) -> dict[str, float]:
    files = [DATA / "wiki.txt", DATA / "train.tsv"]
    folder = Path(tempfile.mkdtemp())
    try:
        run = train("recall", files, settings=settings(row, steps), seed=seed, out=folder / "run")
        return {"exact": run.metrics["exact"], "seconds": run.config["seconds"]}
    finally:
        shutil.rmtree(folder)


def commonest(seed: int) -> float:
    asked = read_questions(DATA / "train.tsv", read_facts(DATA / "wiki.txt"))
    ours, aside = split_by_person(asked, 0.2, seed)
    place = Counter(ours.answers).most_common(1)[0][0]
    return sum(answer == place for answer in aside.answers) / len(aside)


def main() -> None:
    parser = argparse.ArgumentParser(description="What recall hangs on.")
    parser.add_argument("--only", help="rows, with commas between them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    args = parser.parse_args()
    chosen = [row.strip() for row in args.only.split(",")] if args.only else list(ROWS)
    if unknown := [row for row in chosen if row not in ROWS]:
        parser.error(f"unknown rows {unknown}; known: {', '.join(ROWS)}")
    whole: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.is_file() and not args.quick else {}
    if whole.get("steps") != args.steps:
        whole = {"steps": args.steps, "each": {}}
    whole |= {"machine": timing.machine(), "commonest place": interval([commonest(s) for s in range(args.seeds)])}
    for seed in range(args.seeds):
        for row in chosen:
            done = whole["each"].setdefault(row, {})
            if str(seed) in done:
                continue
            done[str(seed)] = one(row, seed, args.steps)
            print(f"{row}, seed {seed}: {done[str(seed)]}", flush=True)
            if not args.quick:
                RESULT.write_text(json.dumps(whole, indent=2) + "\n")
    whole["rows"] = {row: interval([r["exact"] for r in done.values()]) for row, done in whole["each"].items()}
    if "dot" in whole["rows"]:  # a seed sets the same people aside for all
        own = whole["rows"]["dot"]["values"]
        every = {"commonest place": whole["commonest place"], **whole["rows"]}
        same = {row: found["values"] for row, found in every.items() if len(found["values"]) == len(own)}
        whole["against dot"] = {r: interval([a - b for a, b in zip(v, own, strict=True)]) for r, v in same.items()}
    print(f"{'commonest place':32} {percent(whole['commonest place'])}")
    for row, found in whole["rows"].items():
        print(f"{row:32} {percent(found)}")
    if not args.quick:
        RESULT.write_text(json.dumps(whole, indent=2) + "\n")
        print(f"written: {RESULT}")


if __name__ == "__main__":
    main()
