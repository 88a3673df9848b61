"""What masked pretraining is worth: sentences named by a Transformer that has read WikiText-2 and by one that has not.

    python benchmarks/transfer.py                      # pretrains (about 25 minutes on 2 cores), then 54 short runs
    python benchmarks/transfer.py --bert RUN           # starts from a run of recipes/wikitext2-bert-long.yaml

The same model (recipes/wikitext2-bert-long.yaml: 4 layers, width 128), tokenizer, steps and settings, once `--from` the
pretrained run and once from random weights, on TREC, SST-2 and MR of ../shared/data/sentences: a fifth of the training
file is set aside and read once (SST-2: its dev file). With all labels, with 1,000 and with 200 of them (drawn anew for
each seed). Three seeds; the difference of the means has a 95 % interval over seeds (Student's t, paired), and beside it
one over the items (bootstrap of the mean over seeds of what each item gains). Settings are the same for both. Writes
benchmarks/results/transfer.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from blanks import trained
from documents import parts, taken
from seeds import interval, percent
from timing import machine

import regard
from regard.data.read_table import Table
from regard.models import bert as bert_model

ROOT = Path(__file__).parent.parent
DATA = {"valid_fraction": 0.02, "batch_tokens": 1024}
MODEL = {"dropout": 0.3}
TRAIN = {"lr": 1e-3, "weight_decay": 0.05, "ema_decay": 0.98, "evaluate_every": 100_000}
LENGTHS = {"all": {"epochs": 6}, "1000": {"steps": 250}, "200": {"steps": 150}}
"""How long is trained on so many labels."""


def right(run: Any, aside: Table) -> np.ndarray:
    """Which items are named rightly."""
    chosen = run.probabilities(aside.texts).argmax(1)
    return np.array([run.labels[i] == label for i, label in zip(chosen, aside.labels or [], strict=True)])


def over_items(gains: np.ndarray, draws: int = 2000) -> list[float]:
    """95 % interval of the mean of what each item gains, (items,), by drawing items anew."""
    random = np.random.default_rng(0)
    means = [gains[random.integers(0, len(gains), len(gains))].mean() for _ in range(draws)]
    return [round(float(v), 4) for v in np.quantile(means, (0.025, 0.975))]


def fresh(run: Any, place: Path, seed: int) -> Path:
    """The same run with weights that have learnt nothing."""
    import shutil

    import torch
    from safetensors.torch import save_file

    shutil.copytree(run.folder, place)
    torch.manual_seed(seed)
    config: bert_model.BERTConfig = run.settings.model
    save_file(config.build(run.config["vocab_size"]).state_dict(), place / "model.safetensors")
    return place


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bert")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    quiet = {"progress": False}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bert = trained("bert-long", given.bert, place)
        old = Path(str(bert.folder))
        begun = [
            {"pretrained": old, "from scratch": fresh(bert, place / f"fresh-{i}", 100 + i)} for i in range(given.seeds)
        ]
        result: dict[str, Any] = {"machine": machine(), "pretraining": bert.metrics, "tasks": {}}
        for labels, name in itertools.product(LENGTHS, ("trec", "sst2", "mr")):
            train, aside = parts(name)
            settings = {"data": DATA, "model": MODEL, "train": TRAIN | LENGTHS[labels]}
            good: dict[str, list[np.ndarray]] = {start: [] for start in begun[0]}
            for seed in range(given.seeds):
                order = np.random.default_rng(seed).permutation(len(train.texts))
                some = train if labels == "all" else taken(train, order[: int(labels)])
                for start, origin in begun[seed].items():
                    out = place / f"{name}-{labels}-{seed}-{start}"
                    run = regard.train(
                        "classify", some, warm_start=origin, out=out, seed=seed, settings=settings, **quiet
                    )
                    good[start].append(right(run, aside))
            reached = {start: [float(found.mean()) for found in each] for start, each in good.items()}
            gain = interval(list(np.subtract(reached["pretrained"], reached["from scratch"])))
            items = np.mean(good["pretrained"], 0) - np.mean(good["from scratch"], 0)
            gain["over items"] = over_items(items)
            found = {start: interval(values) for start, values in reached.items()} | {"gain": gain}
            result["tasks"].setdefault(name, {})[labels] = found
            told = "   ".join(f"{start} {percent(interval(values))}" for start, values in reached.items())
            print(f"{name:6} {labels:>4} labels: {told}   gain {percent(gain)}", flush=True)
            (ROOT / "benchmarks" / "results" / "transfer.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
