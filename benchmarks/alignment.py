"""Does attention find which words belong together? On dates of many locales to ISO and numbers spelled out, where the
truth is known: recurrent translators with each score, and the Transformer, by the share of true links that they find.

    python benchmarks/alignment.py              # about 15 minutes on 2 cores; writes benchmarks/results/alignment.json
    python benchmarks/alignment.py --quick      # few steps, to see that it runs; writes nothing

A link is found when the source word with most of the attention of a target word is the right one. By chance it is one
over the words of the source.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from timing import machine

import regard
from regard.data.synthetic.aligned_pairs import AlignedPair, generate_pairs

RESULT = Path(__file__).parent / "results" / "alignment.json"
RNN = {"name": "rnn", "dim": 64, "hidden": 128, "dropout": 0.1}
MODELS: dict[str, dict[str, Any]] = {
    "rnn additive, fed": {**RNN, "mechanism": "additive", "input_feeding": True},
    "rnn additive": {**RNN, "mechanism": "additive"},
    "rnn bilinear": {**RNN, "mechanism": "bilinear"},
    "rnn dot": {**RNN, "mechanism": "dot"},
    "transformer": {"name": "transformer", "dim": 128, "hidden": 256, "layers": 2, "norm": "pre"},
}


def write(folder: Path, name: str, made: list[AlignedPair]) -> Path:
    (folder / f"{name}.tsv").write_text("".join(f"{one.source}\t{one.target}\n" for one in made), encoding="utf-8")
    links = (" ".join(f"{s}-{t}" for s, t in one.alignment) for one in made)
    (folder / f"{name}.align").write_text("".join(f"{line}\n" for line in links))
    return folder / f"{name}.tsv"


def measure(steps: int, count: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in ("dates", "numbers"):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            train, test = write(folder, "train", generate_pairs(kind, count, 0)), generate_pairs(kind, 500, 1)
            held = write(folder, "test", test)
            chance = sum(len(one.alignment) / len(one.source.split()) for one in test)
            found[kind] = {"by chance": chance / sum(len(one.alignment) for one in test)}
            for name, model in MODELS.items():
                settings = {"model": model, "tokenizer": {"vocab_size": 600}, "data": {"batch_tokens": 2048}}
                settings |= {"train": {"lr": 0.003}, "label_smoothing": 0.0}
                how = {"steps": steps, "settings": settings, "progress": False}
                run = regard.train("translate", [train], out=folder / name.replace(" ", "-"), **how)
                got = run.evaluate([str(held)], alignments=held.with_suffix(".align"), beam=1)
                found[kind][name] = {"aligned": got["aligned"], "exact": got["exact"], "seconds": run.config["seconds"]}
                print(f"{kind}, {name}: aligned {got['aligned']:.3f}, exact {got['exact']:.3f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few steps; writes nothing")
    parser.add_argument("--steps", type=int, default=1000)
    given = parser.parse_args()
    found = measure(20 if given.quick else given.steps, 1000 if given.quick else 10_000)
    if not given.quick:
        RESULT.write_text(json.dumps({"steps": given.steps, "found": found, "machine": machine()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
