"""Writes the README's table of measurements from the result files in benchmarks/results.

python docs/measured.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).absolute().parent.parent
START, END = "<!-- measured -->\n", "<!-- /measured -->"


def result(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def between(ratio: dict[str, float], value: str = "value") -> str:
    return f"{ratio[value]:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def rows() -> list[tuple[str, str, str]]:
    attention, throughput = result("attention"), result("throughput")
    batching, kills = result("batching"), result("kills")
    speed = throughput["regard_is_times_as_fast_as"]
    dot, local, relative = attention["dot"], attention["local"], attention["relative"]
    same = all(kills[k] for k in ("best_model_identical", "last_state_identical", "metrics_identical"))
    run = "python benchmarks/{}.py"
    return [
        (
            "dot attention, time over bare fused attention with its projections, forward and backward",
            f"{dot['mean']:.2f} in the mean of {len(dot['shapes'])} shapes, {dot['worst']:.2f} at worst",
            run.format("attention"),
        ),
        (
            "local attention, window 128: growth exponent from n = 512 to 8192",
            between(local["growth"]["exponent"]),
            run.format("attention"),
        ),
        (
            "local attention, window 128: times as fast as masked fused attention at n = 4096",
            between(local["against masked"]["times faster"]),
            run.format("attention"),
        ),
        (
            "Shaw's relative attention, time over dot at n = 512",
            between(relative["layer"]["ratio"]),
            run.format("attention"),
        ),
        (
            "a layer that was recorded before, time over one that never was",
            between(attention["recording"]["ratio"]),
            run.format("attention"),
        ),
        (
            "training a GPT (4 layers, d = 256), times as fast as Hugging Face's GPT-2 class: each as PyTorch comes",
            between(speed["Hugging Face, both plain"], "median"),
            run.format("throughput"),
        ),
        (
            "the same, regard's loop (which keeps freed memory) against theirs as it comes",
            between(speed["Hugging Face, as each comes"], "median"),
            run.format("throughput"),
        ),
        (
            "the same, with that setting given to theirs too",
            between(speed["Hugging Face, both prepared"], "median"),
            run.format("throughput"),
        ),
        (
            "the same against a nanoGPT, as each comes",
            between(speed["nanoGPT, as each comes"], "median"),
            run.format("throughput"),
        ),
        (
            "share of a large matrix product's speed that a training step reaches",
            f"{throughput['share_of_the_product']:.0%} of {throughput['product_gflops']['median']:.0f} GFLOPS",
            run.format("throughput"),
        ),
        (
            "batches of like length, real tokens a second over random order with padding: Transformer, HAN",
            ", ".join(f"{batching['models'][m]['like length']['ratio']:.2f}" for m in ("transformer", "han")),
            run.format("batching"),
        ),
        (
            f"{kills['kills']} kills at random moments of a run, then resumed",
            "the same weights, state and metrics, bit by bit" if same else "NOT the same",
            run.format("kills"),
        ),
    ]


def main() -> None:
    machine = result("throughput")["machine"]
    table = "| what | result | command |\n|---|---|---|\n"
    table += "".join(f"| {what} | {found} | `{command}` |\n" for what, found, command in rows())
    where = f"{machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}, {machine['date']}"
    table += f"\nOn {where}; medians, with 95 % intervals.\n"
    readme = ROOT / "README.md"
    text = readme.read_text()
    pattern = re.compile(re.escape(START) + ".*?" + re.escape(END), re.S)
    readme.write_text(pattern.sub(lambda _: START + table + END, text))


if __name__ == "__main__":
    main()
