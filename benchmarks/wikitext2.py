"""Perplexity of whole words on WikiText-2's validation part, by recipes/wikitext2.yaml.

    python benchmarks/wikitext2.py               # trains (within an hour on 2 cores), measures, and writes the result
    python benchmarks/wikitext2.py --run RUN     # measures a run of the recipe; benchmarks/results/wikitext2.json

Every word and line end of the part is predicted once, <unk> as a word of its own, as the literature does. A window
slides over the text: with a stride of 32 each word has at least 96 words before it to look at (but for the first), with
the stride of the window (128) some have none.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from timing import machine

import regard
from regard.config.settings import load_settings
from regard.tasks.language.run import LanguageModel

ROOT = Path(__file__).parent.parent
STRIDES = (128, 32)


def trained(place: Path) -> LanguageModel:
    settings = load_settings(ROOT / "recipes" / "wikitext2.yaml")
    settings.pop("task")
    files = {part: str((ROOT / settings["data"].pop(part)).resolve()) for part in ("train", "valid")}
    return regard.train("language", files["train"], valid=files["valid"], out=place / "run", settings=settings)  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run: Any = regard.load(given.run) if given.run else trained(Path(place))
        found = {stride: run.evaluate(run.settings.data.valid, stride=stride) for stride in STRIDES}
    best = found[STRIDES[-1]]
    result = {
        "machine": machine(),
        "word_perplexity": round(best["word_perplexity"], 2),
        "stride": STRIDES[-1],
        "by_stride": {str(stride): round(row["word_perplexity"], 2) for stride, row in found.items()},
        "words": best["tokens"],
        "parameters": run.config["parameters"],
        "steps": run.config["steps"],
        "seconds": round(run.config["seconds"], 1),
        "threads": run.config["machine"]["threads"],
        "settings": {key: run.config["settings"][key] for key in ("data", "model", "train")},
    }
    print(json.dumps(result, indent=2))
    (ROOT / "benchmarks" / "results" / "wikitext2.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
