"""Seconds an epoch and memory as `regard cost --predict` foretells them, against what training then takes.

    python benchmarks/predict.py               # writes benchmarks/results/predict.json
    python benchmarks/predict.py --quick       # few steps, nothing written

Six configurations on generated reviews. The probe knows the model, the length and the batch; the run is `regard.train`
as a user calls it, its speed taken between its first and last line of metrics, evaluations left out. Memory is what
tensors hold at the worst moment of two steps, traced allocation by allocation, and the weights.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
from timing import machine, peak_memory
from torch import nn

import regard
from regard.data.synthetic.reviews import generate_reviews
from regard.theory.cost.cost_card import example_inputs
from regard.theory.cost.predict_time import example_loss, predict_time

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "gpt, 2 layers of 128": {"task": "language", "model": "gpt", "block": 64, "sizes": {"dim": 128, "layers": 2}},
    "gpt, 4 layers of 256": {"task": "language", "model": "gpt", "block": 128, "sizes": {"dim": 256, "layers": 4}},
    "birnn, 128": {"task": "language", "model": "birnn", "block": 64, "sizes": {"dim": 128, "hidden": 128}},
    "transformer, 2 layers of 128": {"task": "classify", "model": "transformer", "sizes": {"dim": 128, "layers": 2}},
    "bilstm, 100": {"task": "classify", "model": "bilstm", "sizes": {"hidden": 100}},
    "han, 50": {"task": "classify", "model": "han", "sizes": {"hidden": 50}},
}
OBJECTIVE = {"gpt": "causal", "birnn": "blank"}
BATCH_TOKENS = 2048


def trained(case: dict[str, Any], folder: Path, steps: int) -> tuple[Any, float, float, int]:
    """The run, its seconds a token, and the mean tokens of a text and of a sentence."""
    reviews = generate_reviews(6000, 0)
    file = folder / ("reviews.csv" if case["task"] == "classify" else "reviews.txt")
    if case["task"] == "classify":
        import csv

        with file.open("w", newline="") as out:
            csv.writer(out).writerows([("review", "sentiment"), *((r.text, r.label) for r in reviews)])
    else:
        file.write_text("\n".join(r.text for r in reviews) + "\n")
    data: dict[str, Any] = {"batch_tokens": BATCH_TOKENS}
    if "block" in case:
        data["block"] = case["block"]
    settings = {"model": case["sizes"], "data": data, "train": {"evaluate_every": 10 * steps}}
    given = {"objective": OBJECTIVE[case["model"]]} if case["task"] == "language" else {}
    quiet = {"progress": False}
    out = folder / "run"
    run = regard.train(
        case["task"], file, model=case["model"], steps=steps, out=out, settings=settings, **given, **quiet
    )
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    train = [line for line in lines if "loss" in line]
    # Lines are written when losses are fetched, once a second: the last of those that come together is on time.
    first = next((a for a, b in itertools.pairwise(train) if b["seconds"] - a["seconds"] > 0.3), train[0])
    last = train[-1]
    each = (last["seconds"] - first["seconds"]) / (last["tokens"] - first["tokens"])
    if case["task"] == "language":
        return run, each, float(case["block"]), 20
    lengths = [len(run.tokenizer.encode(r.text).ids) for r in reviews[:500]]
    count = sum(len(re.findall(r"[.!?]+(?:\s|$)", r.text)) for r in reviews[:500])
    return run, each, sum(lengths) / len(lengths), max(1, round(sum(lengths) / max(1, count)))


def held(model: nn.Module, n: int, batch: int) -> int:
    """Bytes of tensors at the worst moment of two steps."""
    args = tuple(t.detach() for t in example_inputs(model, n, batch=batch)[0])
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def steps() -> None:
        for _ in range(2):
            example_loss(model, args).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return peak_memory(steps) + sum(p.numel() * p.element_size() for p in model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="configurations whose title holds this; nothing is written")
    parser.add_argument("--quick", action="store_true", help="few steps, nothing written")
    given = parser.parse_args()
    quick = given.quick
    results: dict[str, Any] = {"machine": machine(), "batch_tokens": BATCH_TOKENS, "configurations": {}}
    for title, case in CONFIGURATIONS.items():
        if given.only not in title:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run, each, length, sentence = trained(case, Path(folder), 40 if quick else 150)
        n = max(2, round(length))
        batch = max(1, BATCH_TOKENS // n)
        tokens = 1_000_000
        told = predict_time(run.model, n, batch, tokens, seconds=1.0 if quick else 5.0, sentence_length=sentence)
        memory = held(run.model, n, batch)
        row = {
            "n": n,
            "batch": batch,
            "seconds_predicted": told["seconds_epoch"],
            "seconds_measured": each * tokens,
            "seconds_ratio": told["seconds_epoch"] / (each * tokens),
            "memory_predicted": told["memory"],
            "memory_measured": memory,
            "memory_ratio": told["memory"] / memory,
        }
        results["configurations"][title] = row
        print(
            f"{title:30} {row['seconds_predicted']:7.1f} s foretold, {row['seconds_measured']:7.1f} s measured "
            f"({row['seconds_ratio']:.2f});  {row['memory_predicted'] / 2**20:6.0f} MiB foretold, "
            f"{memory / 2**20:6.0f} measured ({row['memory_ratio']:.2f})",
            flush=True,
        )
    if not quick and not given.only:
        Path("benchmarks/results/predict.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
