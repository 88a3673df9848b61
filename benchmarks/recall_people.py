"""Recall of generated facts: what saying them in several ways does, and how much is held per parameter.

    python benchmarks/recall_people.py            # about an hour on one core; writes results/recall_people.json
    python benchmarks/recall_people.py --quick    # few people and steps, to see that it runs; writes nothing

People with invented names, born in one of 200 real cities; half are asked about in training, a fifth of these set
aside. All trainings have the same steps, so that what is said in more ways is said less often each. Plain GPTs, whose
memory is in their matrices. Bits held: log2(200) for each of the others whose city is said, beyond what guessing gives.
What is seen is written after each row, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import timing
from seeds import interval, percent

from regard.data.synthetic.people import generate_people
from regard.tasks.train import train

RESULT = Path(__file__).parent / "results" / "recall_people.json"
CITIES = 200
PLAIN = {"phrases": 0, "clozes": 0, "sentences": 3}
WAYS = {
    "one way, read as it stands": (1, PLAIN),
    "three ways, read as they stand": (3, {**PLAIN, "sentences": 1}),
    "one way, rewritten": (1, {"sentences": 1, "phrases": 1, "clozes": 3}),
}
SIZES = (64, 128, 256)


def recalled(count: int, ways: int, mix: dict[str, Any], dim: int, steps: int, seed: int) -> tuple[float, int]:
    """The share of people never asked about whose city is said, and the parameters."""
    made = generate_people(count, seed, phrasings=ways, num_cities=CITIES)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "facts.txt").write_text("\n".join(made.facts) + "\n")
        for name, rows in (("asked", made.train_questions), ("others", made.test_questions)):
            (home / f"{name}.tsv").write_text("".join(f"{q}\t{a}\n" for q, a in rows))
        settings = {
            "model": {"name": "gpt", "dim": dim, "layers": 3, "positions": "rotary", "bias": False},
            "tokenizer": {"vocab_size": 1500},
            "mix": {**mix, "unknown_names": 0.0},
            "train": {"steps": steps, "evaluate_every": 10_000},
        }
        files = [home / "facts.txt", home / "asked.tsv"]
        run = train("recall", files, settings=settings, seed=seed, out=home / "run")
        return run.evaluate(home / "others.tsv")["exact"], run.config["parameters"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Recall of generated facts.")
    parser.add_argument("--people", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    args = parser.parse_args()
    people, steps, seeds = (60, 5, 1) if args.quick else (args.people, args.steps, args.seeds)
    wanted = {"people": people, "steps": steps, "seeds": seeds}
    result: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.is_file() and not args.quick else {}
    if any(result.get(key) != value for key, value in wanted.items()):
        result = {**wanted, "ways": {}, "sizes": {}}
    result["machine"] = timing.machine()

    def keep() -> None:
        if not args.quick:
            RESULT.write_text(json.dumps(result, indent=2) + "\n")

    for name, (ways, mix) in WAYS.items():
        if name not in result["ways"]:
            result["ways"][name] = interval([recalled(people, ways, mix, 128, steps, s)[0] for s in range(seeds)])
            keep()
        print(f"{name:32} {percent(result['ways'][name])}", flush=True)
    for dim in SIZES:
        if str(dim) not in result["sizes"]:
            found = [recalled(people, 1, WAYS["one way, rewritten"][1], dim, steps, s) for s in range(seeds)]
            exact = interval([share for share, _ in found])
            bits = people * max(0.0, exact["mean"] - 1 / CITIES) * math.log2(CITIES)
            result["sizes"][str(dim)] = {"exact": exact, "parameters": found[0][1], "bits": round(bits)}
            keep()
        row = result["sizes"][str(dim)]
        print(
            f"width {dim}: {percent(row['exact'])}, {row['bits']:,} bits in {row['parameters']:,} parameters",
            flush=True,
        )


if __name__ == "__main__":
    main()
