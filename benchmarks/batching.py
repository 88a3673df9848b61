"""What batches of like length gain over padding in random order: real tokens a second, forward + backward, side by
side.

    python benchmarks/batching.py              # writes benchmarks/results/batching.json

Documents have lengths like film reviews (log-normal, median 230 tokens, at most 512). Three ways with the same number
of documents on the average batch: documents in random order padded to the longest of the whole data; to the longest
of the batch; batches of like length (regard.data.batches). Blocks of steps of the three are interleaved; the figure
is the median over rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from regard.data import batches
from regard.models import han, transformer_classifier
from regard.training import environment


def lengths(count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.clip(np.exp(random.normal(np.log(230), 0.6, count)), 8, 512).astype(int)


def plans(sizes: np.ndarray, tokens: int) -> dict[str, list[np.ndarray]]:
    order = np.random.default_rng(1).permutation(len(sizes))
    alike = batches.plan_batches(sizes, tokens, seed=0, epoch=0)
    count = round(len(sizes) / len(alike))
    chunks = [order[i : i + count] for i in range(0, len(order), count)]
    return {"padded to the longest of all": chunks, "padded to the longest of the batch": chunks, "like length": alike}


def step(model: torch.nn.Module, sizes: np.ndarray, width: int) -> int:
    mask = torch.from_numpy(np.arange(width) < sizes[:, None])
    ids = torch.randint(6, 20_000, mask.shape) * mask
    sentences = torch.arange(width).expand_as(ids) // 20
    model.zero_grad(set_to_none=True)
    model(ids, mask, sentences).logits.sum().backward()
    return int(mask.sum())


def measure(model: torch.nn.Module, sizes: np.ndarray, rounds: int, block: int) -> dict[str, float]:
    ways = plans(sizes, 8192)
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(rounds + 1):
        for name, plan in ways.items():
            start, tokens = time.perf_counter(), 0
            for i in range(block):
                batch = sizes[plan[(round_ * block + i) % len(plan)]]
                tokens += step(model, batch, int(sizes.max() if name.endswith("of all") else batch.max()))
            if round_:  # the first round warms up
                speeds[name].append(tokens / (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in speeds.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    environment.prepare_process()
    torch.manual_seed(0)
    sizes = lengths(600 if quick else 3000)
    nets = {
        "transformer": transformer_classifier.TransformerClassifierConfig(
            dim=256, layers=4, heads=4, hidden=1024, dropout=0.0
        ).build(20_000, 2),
        "han": han.HANConfig(dropout=0.0).build(20_000, 2),
    }
    result: dict = {"machine": environment.describe_machine(), "median_tokens": float(np.median(sizes)), "models": {}}
    for name, net in nets.items():
        speeds = measure(net, sizes, rounds=1 if quick else 5, block=2 if quick else 6)
        base = speeds["padded to the longest of the batch"]
        result["models"][name] = {
            way: {"tokens_per_second": round(speed), "ratio": round(speed / base, 3)} for way, speed in speeds.items()
        }
        for way, row in result["models"][name].items():
            print(f"{name:12} {way:36} {row['tokens_per_second']:>8,} tokens/s   {row['ratio']:.2f}")
    plan = batches.plan_batches(sizes, 8192, seed=0, epoch=0)
    result["places_filled_like_length"] = round(float(sizes.sum() / sum(len(b) * sizes[b].max() for b in plan)), 4)
    if not quick:
        Path("benchmarks/results/batching.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
