"""What weights that are rounded for decoding cost a translator: BLEU in float32, float16 and int8, and how many
translations stay as they are.

    python benchmarks/rounding.py RUN           # a run of multi30k-transformer; writes benchmarks/results/rounding.json

On the validation part of Multi30k, beam 5. The run may have been trained for fewer steps than its recipe says; the
result tells how many.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import timing

import regard
from regard.data import parallel_text
from regard.tasks.translate.metrics import bleu

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data" / "multi30k"
RESULT = Path(__file__).parent / "results" / "rounding.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = regard.load(str(parser.parse_args().run))
    texts = parallel_text.read_parallel_texts([DATA / "val.en.gz", DATA / "val.de.gz"], source=None, target=None)
    said: dict[str, list[str]] = {}
    rows: dict[str, dict[str, float]] = {}
    for precision in ("float32", "float16", "int8"):
        begun = time.perf_counter()
        said[precision] = [one.text for one in run.translate(texts.sources, beam=5, precision=precision)]
        seconds = time.perf_counter() - begun
        scores = {
            "bleu_lc": bleu(said[precision], texts.targets),
            "bleu": bleu(said[precision], texts.targets, lowercase=False),
        }
        same = sum(map(str.__eq__, said[precision], said["float32"])) / len(said[precision])
        rows[precision] = {**scores, "same": same, "seconds": seconds}
        print(f"{precision}: BLEU {scores['bleu_lc']:.2f}, {100 * same:.1f} % the same, {seconds:.1f} s", flush=True)
    result = {"steps": run.config["steps"], "lines": len(texts.sources), "precisions": rows}
    RESULT.write_text(json.dumps({**result, "machine": timing.machine()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
