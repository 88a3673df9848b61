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


def quality() -> list[tuple[str, str, str]]:
    """How good recipes are, each beside what it is measured against."""
    found: list[tuple[str, str, str]] = []
    for name in ("imdb", "sst2", "mr", "trec"):
        models = result(f"documents-{name}")["models"]
        told = ", ".join(f"{m} {100 * row['accuracy']:.1f} %" for m, row in models.items() if m != "nb-svm")
        seeds = max(len(row.get("seeds", [])) for row in models.values())
        what = (
            f"{name}, texts set aside, {'one seed' if seeds == 1 else f'mean of {seeds} seeds'}: recipes beside NB-SVM"
        )
        base = f"NB-SVM {100 * models['nb-svm']['accuracy']:.1f} %"
        found.append((what, f"{told}; {base}", f"python benchmarks/documents.py {name} --seeds {seeds}"))
    han = result("han")["times_faster_than"]
    ways = f"{between(han['padded'])}, packed {between(han['packed'])}"
    what = "an epoch of HAN, times as fast as the padded (batch, sentences, words) block, and as the same packed"
    found.append((what, ways, "python benchmarks/han.py"))
    context = result("context")["models"]
    told = ", ".join(f"{name} {100 * row['accuracy']['mean']:.1f} %" for name, row in context.items())
    found.append(("texts that need the sentence before (chance 25 %)", told, "python benchmarks/context.py"))
    evidence = result("evidence")["models"]
    told = ", ".join(f"{n} {100 * r['evidence']['mean']:.0f} %" for n, r in evidence.items() if "evidence" in r)
    found.append(("attention on the words that decide, generated reviews", told, "python benchmarks/evidence.py"))
    hops = result("hops")["penalties"]
    told = ", ".join(f"penalty {p}: {row['alike']['mean']:.2f}" for p, row in hops.items())
    found.append(("how alike eight hops are (1: all the same)", told, "python benchmarks/hops.py"))
    return found


def language() -> list[tuple[str, str, str]]:
    shakespeare, wikitext = result("shakespeare"), result("wikitext2")
    recipes, over = shakespeare["recipes"], shakespeare["time_over_nanogpt"]
    told = ", ".join(f"{name} {row['loss']:.3f} in {row['seconds']:.0f} s" for name, row in recipes.items())
    found = [
        (
            "tinyshakespeare, nats a character on the validation part, in one run",
            f"{told}; time over nanogpt's: quick {between(over['quick'])}, long {between(over['long'])}",
            "python benchmarks/shakespeare.py",
        ),
        (
            "WikiText-2, perplexity a word on the validation part",
            f"{wikitext['word_perplexity']:.1f} after {wikitext['seconds'] / 60:.0f} minutes on "
            f"{wikitext['threads']} thread(s)",
            "python benchmarks/wikitext2.py",
        ),
    ]
    blanks = result("blanks")
    told = ", ".join(f"{name} {100 * row['accuracy']['value']:.1f} %" for name, row in blanks["models"].items())
    found.append(("the missing word of WikiText-2, equal parameters", told, "python benchmarks/blanks.py"))
    tasks = result("transfer")["tasks"]
    told = ", ".join(
        f"{name} {100 * row['gain']['mean']:+.1f} ({100 * row['gain']['low']:+.1f} to {100 * row['gain']['high']:+.1f})"
        for name, row in tasks.items()
    )
    found.append(("points that masked pretraining adds, three seeds", told, "python benchmarks/transfer.py"))
    for size, batch in result("generation")["batches"].items():
        for kind in ("float32", "float16"):
            speed = batch["greedy"]["regard_is_times_as_fast_as"][f"regard {kind}"]
            told = ", ".join(f"{name} {between(row)}" for name, row in speed.items())
            what = f"writing 128 tokens (4 layers, d = 256), batch {size}, weights in {kind}: times as fast as"
            found.append((what, told, "python benchmarks/generation.py"))
    return found


def main() -> None:
    machine = result("throughput")["machine"]
    table = "| what | result | command |\n|---|---|---|\n"
    table += "".join(
        f"| {what} | {found} | `{command}` |\n" for what, found, command in rows() + quality() + language()
    )
    where = f"{machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}, {machine['date']}"
    table += f"\nOn {where}; medians, with 95 % intervals.\n"
    readme = ROOT / "README.md"
    text = readme.read_text()
    pattern = re.compile(re.escape(START) + ".*?" + re.escape(END), re.S)
    readme.write_text(pattern.sub(lambda _: START + table + END, text))


if __name__ == "__main__":
    main()
