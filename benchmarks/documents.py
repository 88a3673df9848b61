"""How good the recipes for documents are, beside NB-SVM on the same texts.

    python benchmarks/documents.py imdb            # writes benchmarks/results/documents-imdb.json
    python benchmarks/documents.py mr sst2 trec --seeds 3
    python benchmarks/documents.py mr sst2 trec --seeds 3 --words RUN       # words were pretrained before

A part of the training file is set aside first (a fifth; for sst2 its dev file) and is read once, at the end. What is
left, without texts that stand in both, is given to the recipe, which cuts its own validation part from it to choose the
weights it keeps, and whole to NB-SVM. Recipes named `-pretrained` start from recipes/words.yaml, whose text here has
nothing that any set has set aside; it is pretrained first (about 25 minutes) and kept in --words. Each seed is compared
with NB-SVM item by item by McNemar's exact test, and the mean over seeds is given with the range of the seeds. The
official test parts are not touched.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest
from timing import machine

import regard
from regard.config.settings import load_settings
from regard.data.read_table import Table, read_table

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
RECIPES = {
    "imdb": ["imdb-han", "imdb-ngram-attention", "imdb-han-pretrained"],
    "mr": ["mr", "mr-pretrained"],
    "sst2": ["sst2", "sst2-pretrained"],
    "trec": ["trec", "trec-pretrained"],
}
READ = ("trec", "imdb")
"""The sets whose texts recipes/words.yaml reads."""


def parts(name: str) -> tuple[Table, Table]:
    """The part to train on and the part to measure on."""
    if name == "imdb":
        table = read_table(DATA / "imdb" / "train.tsv.gz", text="3", label="0")
    else:
        table = read_table(DATA / "sentences" / f"{name}.train.txt.gz")
    if name == "sst2":
        aside = read_table(DATA / "sentences" / "sst2.dev.txt.gz")
        return without(table, aside.texts), aside
    order = np.random.default_rng(2026).permutation(len(table.texts))
    cut = len(order) // 5
    aside = taken(table, order[:cut])
    return without(taken(table, order[cut:]), aside.texts), aside


def bare(text: str) -> str:
    """Letters and digits alone: MR and SST-2 write the same sentence in two ways."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def without(table: Table, texts: Iterable[str]) -> Table:
    """A table less the rows whose text is one of these."""
    these = set(map(bare, texts))
    return taken(table, np.array([i for i, text in enumerate(table.texts) if bare(text) not in these], int))


def taken(table: Table, rows: np.ndarray) -> Table:
    labels = table.labels or []
    return dataclasses.replace(table, texts=[table.texts[i] for i in rows], labels=[labels[i] for i in rows])


def pretrained(folder: Path, aside: str = "") -> Path:
    """A run of recipes/words.yaml on text without what is set aside, or without one set as a whole where it is named.
    One that was stopped goes on, and one that is finished is only looked at."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    text = folder.with_suffix(".txt")
    both = {name: parts(name) for name in RECIPES}
    wiki = gzip.decompress((DATA / "wikitext2" / "train.txt.gz").read_bytes()).decode().splitlines()
    lines = [*(line for name in READ if name != aside for line in both[name][0].texts), *wiki]
    hidden = {bare(line) for name in RECIPES for line in both[name][1].texts}
    hidden |= {bare(line) for line in both[aside][0].texts} if aside else set()
    lines = [" ".join(line.split()) for line in lines if bare(line) not in hidden]
    text.write_text("".join(f"{line}\n" for line in lines if line), encoding="utf-8")
    settings = load_settings(ROOT / "recipes" / "words.yaml")
    settings.pop("task")
    settings["data"]["train"] = str(text)
    regard.train("language", settings=settings, out=folder, resume=folder.exists())
    return folder


def right(train: Table, aside: Table, model: str, settings: dict[str, Any], seed: int) -> tuple[np.ndarray, Any, float]:
    """Which items of the part set aside are named rightly, the run, and the seconds from the file to the model."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        run = regard.train("classify", train, model=model, out=Path(folder) / "run", seed=seed, settings=settings)
        seconds = time.perf_counter() - begun
        chosen = run.probabilities(aside.texts).argmax(1)
    return np.array([run.labels[i] == label for i, label in zip(chosen, aside.labels or [], strict=True)]), run, seconds


def settings_of(recipe: str) -> dict[str, Any]:
    """The settings of a recipe, for data of ours."""
    settings = load_settings(ROOT / "recipes" / f"{recipe}.yaml")
    settings.pop("task")
    settings["data"] = {k: v for k, v in settings["data"].items() if k not in ("train", "text", "label")}
    return settings


def paired(good: np.ndarray, base: np.ndarray) -> dict[str, Any]:
    """McNemar's exact test of what is right on the same items."""
    more, fewer = int((good & ~base).sum()), int((base & ~good).sum())
    p = float(binomtest(more, more + fewer).pvalue) if more + fewer else 1.0
    return {"only this right": more, "only nb-svm right": fewer, "p": p}


def measure(name: str, seeds: int, words: Path, kept: dict[str, Any], again: list[str]) -> dict[str, Any]:
    """The table of one set; rows that are kept from before are not measured again unless they are named."""
    train, aside = parts(name)
    base, run, seconds = right(train, aside, "nb-svm", {"data": {"valid_fraction": 0.01}}, 0)
    rows: dict[str, Any] = {
        "nb-svm": {"accuracy": base.mean(), "seconds": seconds, "parameters": run.config["parameters"]}
    }
    for recipe in RECIPES[name]:
        if recipe in kept and recipe not in again:
            rows[recipe] = kept[recipe]
            continue
        settings = settings_of(recipe)
        if "warm_start" in settings:
            settings["warm_start"] = str(pretrained(words))
        found = []
        for seed in range(seeds):
            good, run, seconds = right(train, aside, settings["model"]["name"], settings, seed)
            test = paired(good, base)
            found.append({"seed": seed, "accuracy": good.mean(), **test, "seconds": seconds})
            beside = f"NB-SVM {base.mean():.4f}, p = {test['p']:.2g}"
            print(f"{recipe} seed {seed}: {good.mean():.4f} ({beside}), {seconds:.0f} s", flush=True)
        accuracies = [row["accuracy"] for row in found]
        rows[recipe] = {"accuracy": statistics.mean(accuracies), "least": min(accuracies), "most": max(accuracies)}
        rows[recipe] |= {"parameters": run.config["parameters"], "seeds": found}
    return {"trained on": len(train.texts), "measured on": len(aside.texts), "models": rows, **machine()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", choices=RECIPES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--words", type=Path, default=Path("runs/words-aside"))
    parser.add_argument("--only", nargs="+", default=[], help="recipes; the others keep what was measured before")
    given = parser.parse_args()
    for name in given.sets:
        target = Path(__file__).parent / "results" / f"documents-{name}.json"
        kept = json.loads(target.read_text())["models"] if given.only and target.exists() else {}
        result = measure(name, given.seeds, given.words, kept, given.only)
        target.write_text(json.dumps(result, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
