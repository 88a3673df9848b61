"""What masked pretraining is worth: sentences named by a Transformer that has read WikiText-2 and by one that has not.

    python benchmarks/transfer.py                      # pretrains (about 10 minutes on 2 cores), then 54 short runs
    python benchmarks/transfer.py --bert RUN           # starts from a run of recipes/wikitext2-bert.yaml

The same model (recipes/wikitext2-bert.yaml: 4 layers, width 128), tokenizer, steps and settings, once `--from` the
pretrained run and once from random weights, on MR, SST-2 and TREC of ../shared/data/sentences: a fifth of the training
file is set aside and read once (SST-2: its dev file). With 200 labels (drawn anew for each seed), with 1,000 and with
all of them. Three seeds; the difference of the means has a 95 % interval over seeds (Student's t, paired). The settings
are the same for both and were not tuned. Writes benchmarks/results/transfer.json.
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
from regard.data.read import Table
from regard.models import preln_bert

ROOT = Path(__file__).parent.parent
DATA = {"valid_fraction": 0.1, "batch_tokens": 1024}
TRAIN = {"lr": 1e-3, "weight_decay": 0.05, "average": 0.99}
LENGTHS = {"200": {"steps": 200}, "1000": {"steps": 200}, "all": {"epochs": 5}}
"""How long is trained on so many labels."""


def accuracy(run: Any, aside: Table) -> float:
    chosen = run.probabilities(aside.texts).argmax(1)
    return float(np.mean([run.labels[i] == label for i, label in zip(chosen, aside.labels or [], strict=True)]))


def fresh(run: Any, place: Path) -> Path:
    """The same run with weights that have learnt nothing."""
    import shutil

    import torch
    from safetensors.torch import save_file

    shutil.copytree(run.folder, place)
    torch.manual_seed(len(str(place)))
    config: preln_bert.Config = run.settings.model
    save_file(config.build(run.config["vocab"]).state_dict(), place / "model.safetensors")
    return place


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bert")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    quiet = {"progress": False, "say": lambda line: None}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bert = trained("bert", given.bert, place)
        starts = {"pretrained": Path(str(bert.folder)), "from scratch": fresh(bert, place / "fresh")}
        result: dict[str, Any] = {"machine": machine(), "pretraining": bert.metrics, "tasks": {}}
        for labels, name in itertools.product(LENGTHS, ("trec", "sst2", "mr")):
            train, aside = parts(name)
            settings = {"data": DATA, "train": TRAIN | LENGTHS[labels]}
            reached: dict[str, list[float]] = {start: [] for start in starts}
            for seed in range(given.seeds):
                order = np.random.default_rng(seed).permutation(len(train.texts))
                some = train if labels == "all" else taken(train, order[: int(labels)])
                for start, origin in starts.items():
                    out = place / f"{name}-{labels}-{seed}-{start}"
                    run = regard.train("classify", some, origin=origin, out=out, seed=seed, settings=settings, **quiet)
                    reached[start].append(accuracy(run, aside))
            gain = interval(list(np.subtract(reached["pretrained"], reached["from scratch"])))
            found = {start: interval(values) for start, values in reached.items()} | {"gain": gain}
            result["tasks"].setdefault(name, {})[labels] = found
            told = "   ".join(f"{start} {percent(interval(values))}" for start, values in reached.items())
            print(f"{name:6} {labels:>4} labels: {told}   gain {percent(gain)}", flush=True)
            (ROOT / "benchmarks" / "results" / "transfer.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
