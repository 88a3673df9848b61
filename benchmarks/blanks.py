"""The missing word: two LSTMs on both sides of it and a Transformer that masks it, at equal parameters, on WikiText-2.

    python benchmarks/blanks.py                        # trains both (25 minutes on one core), measures, and writes
    python benchmarks/blanks.py --bert RUN --birnn RUN # measures runs of the two recipes; writes results/blanks.json

recipes/wikitext2-bert.yaml and recipes/wikitext2-birnn.yaml are trained on the same tokens (10,000 lower-cased words,
the others unknown), each for the steps of its recipe: their parameters are about equal, their time is not, the masked
one taking three times as long (`seconds` in the result). Then both are asked for the same words: one in the middle of
each window of 64 tokens of the validation part, all others in sight; unknown words are neither asked for nor counted.
Beside them stands the most frequent word. What each says of its own objective (15 % of the words hidden; every word in
turn) is in the result too, but is not the same question. Intervals: bootstrap over the words; the two are compared by
McNemar's test on the same words.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest
from timing import machine

import regard
from regard.config.settings import load_settings
from regard.data import corpus
from regard.data.tokenizer import MASK, SPECIAL_TOKENS
from regard.tasks.language.run import LanguageModel

ROOT = Path(__file__).parent.parent
VALID = ROOT.parent / "shared" / "data" / "wikitext2" / "valid.txt.gz"
BLOCK = 64


def trained(name: str, folder: str | None, place: Path) -> LanguageModel:
    if folder is not None:
        return regard.load(folder)  # type: ignore[return-value]
    settings = load_settings(ROOT / "recipes" / f"wikitext2-{name}.yaml")
    settings.pop("task")
    files = {part: str((ROOT / settings["data"].pop(part)).resolve()) for part in ("train", "valid")}
    return regard.train("language", files["train"], valid=files["valid"], out=place / name, settings=settings)  # type: ignore[return-value]


@torch.no_grad()
def right(run: LanguageModel, ids: np.ndarray) -> np.ndarray:
    """Whether the word in the middle of each row is the likeliest there, (rows,)."""
    found = []
    for part in np.array_split(ids, -(-len(ids) // 128)):
        rows = torch.from_numpy(part.astype(np.int64))
        places = torch.arange(len(rows)) * BLOCK + BLOCK // 2
        wanted = rows[:, BLOCK // 2].clone()
        if run.objective == "masked":
            rows[:, BLOCK // 2] = MASK
        said = run.model(rows, logits_at=places)
        logits = said[0] if isinstance(said, tuple) else said
        found.append((logits.argmax(-1) == wanted).numpy())
    return np.concatenate(found)


def interval(hits: np.ndarray) -> dict[str, float]:
    draws = np.random.default_rng(0).binomial(len(hits), hits.mean(), 4000) / len(hits)
    low, high = np.quantile(draws, [0.025, 0.975])
    return {"value": round(float(hits.mean()), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bert")
    parser.add_argument("--birnn")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        runs = {name: trained(name, getattr(given, name), Path(place)) for name in ("birnn", "bert")}
        words = runs["bert"].words
        files = [(Path(str(run.folder)) / "tokenizer.json").read_bytes() for run in runs.values()]
        assert files[0] == files[1], "the two runs have other words"
        text = corpus.build_corpus(VALID, words, Path(place) / "text", progress=False)
        ids = text.read(np.arange(0, text.num_tokens - BLOCK, BLOCK // 2), BLOCK)
        ids = ids[ids[:, BLOCK // 2] >= len(SPECIAL_TOKENS)]
        hits = {name: right(run, ids) for name, run in runs.items()}
    only = int((hits["birnn"] & ~hits["bert"]).sum()), int((hits["bert"] & ~hits["birnn"]).sum())
    most = np.bincount(ids[:, BLOCK // 2]).max() / len(ids)
    result: dict[str, Any] = {
        "machine": machine(),
        "words_asked_for": len(ids),
        "most_frequent_word": round(float(most), 4),
        "models": {
            name: {
                "accuracy": interval(hits[name]),
                "own_objective": {k: round(v, 4) for k, v in run.metrics.items()},
                "parameters": run.config["parameters"],
                "steps": run.config["steps"],
                "seconds": round(run.config["seconds"], 1),
                "threads": run.config["machine"]["threads"],
            }
            for name, run in runs.items()
        },
        "only_birnn_right": only[0],
        "only_bert_right": only[1],
        "mcnemar_p": binomtest(only[0], sum(only), 0.5).pvalue if sum(only) else 1.0,
    }
    print(json.dumps(result, indent=2))
    (ROOT / "benchmarks" / "results" / "blanks.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
