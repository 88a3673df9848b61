"""Writes the README's table of measurements from the result files in benchmarks/results.

python docs/measured.py
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import partial

from page import ROOT, fill, result

Row = tuple[str, str, str]
"""What, the result, the command."""

TRANSLATORS = ("multi30k-transformer", "multi30k-rnn", "scan-simple")


def between(ratio: dict[str, float], value: str = "value") -> str:
    return f"{ratio[value]:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def rows() -> list[Row]:
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


def documents(name: str) -> Row:
    models = result(f"documents-{name}")["models"]
    told = ", ".join(f"{m} {100 * row['accuracy']:.1f} %" for m, row in models.items() if m != "nb-svm")
    seeds = max(len(row.get("seeds", [])) for row in models.values())
    count = "one seed" if seeds == 1 else f"mean of {seeds} seeds"
    base = f"NB-SVM {100 * models['nb-svm']['accuracy']:.1f} %"
    what = f"{name}, texts set aside, {count}: recipes beside NB-SVM"
    return what, f"{told}; {base}", f"python benchmarks/documents.py {name} --seeds {seeds}"


def folds() -> Row:
    found = result("folds-trec")
    what = f"trec, all {found['measured on']:,} training texts in ten folds, words pretrained on other text"
    told = f"{found['recipe']} {100 * found['accuracy']:.1f} % (standard error {100 * found['standard error']:.1f}); "
    return what, told + f"NB-SVM {100 * found['nb-svm']:.1f} %", "python benchmarks/folds.py trec --jobs 2"


def han() -> Row:
    ways = result("han")["times_faster_than"]
    what = "an epoch of HAN, times as fast as the padded (batch, sentences, words) block, and as the same packed"
    return what, f"{between(ways['padded'])}, {between(ways['packed'])}", "python benchmarks/han.py"


def context() -> Row:
    models = result("context")["models"]
    told = ", ".join(f"{name} {100 * row['accuracy']['mean']:.1f} %" for name, row in models.items())
    return "texts that need the sentence before (chance 25 %)", told, "python benchmarks/context.py"


def evidence() -> Row:
    models = result("evidence")["models"]
    told = ", ".join(
        f"{n} {100 * r['evidence']['mean']:.0f} % ({_seeds(r['evidence'])}; evenly {100 * r['even']['mean']:.0f} %), "
        f"right {_right(r)}"
        if "evidence" in r
        else f"{n} right {_right(r)}"
        for n, r in models.items()
    )
    what = "attention on the words that decide, generated reviews, three seeds (least and most)"
    return what, told, "python benchmarks/evidence.py"


def _seeds(found: dict) -> str:
    return f"{100 * min(found['values']):.0f} to {100 * max(found['values']):.0f}"


def _right(row: dict) -> str:
    return f"{100 * row['accuracy']['mean']:.0f} %"


def hops() -> Row:
    found = result("hops")["penalties"]
    told = "; ".join(
        f"penalty {p}: {row['alike']['mean']:.2f}, {100 * row['accuracy']['mean']:.0f} %" for p, row in found.items()
    )
    return (
        "how alike eight hops are (1: all the same), and texts named rightly, mean of three seeds",
        told,
        "python benchmarks/hops.py",
    )


def shakespeare() -> Row:
    found = result("shakespeare")
    told = ", ".join(f"{name} {row['loss']:.3f} in {row['seconds']:.0f} s" for name, row in found["recipes"].items())
    over = ", ".join(f"{name} {between(row)}" for name, row in found["time_over_nanogpt"].items())
    what = "tinyshakespeare, nats a character on the validation part, and time over nanoGPT's configuration"
    return what, f"{told}; {over}", "python benchmarks/shakespeare.py"


def wikitext() -> Row:
    found = result("wikitext2")
    said = [f"{value:.1f} at a stride of {stride}" for stride, value in found["by_stride"].items()]
    told = f"{', '.join(said)} tokens, after {found['seconds'] / 60:.0f} minutes, {found['threads']} thread(s)"
    return "WikiText-2, perplexity a word on the validation part", told, "python benchmarks/wikitext2.py"


def tokenised() -> Row:
    found = result("tokenise")
    told = "; ".join(f"{name} {between(row)}" for name, row in found["bpe"]["ratio"].items())
    size = f"{found['bpe']['megabytes']:,.0f} MB of {found['text']}"
    what = (
        f"tokenising {size} (bpe) from disk to disk: times as fast as the `tokenizers` library alone on text in memory"
    )
    return what, told, "python benchmarks/tokenise.py"


def blanks() -> Row:
    models = result("blanks")["models"]
    told = ", ".join(f"{name} {100 * row['accuracy']['value']:.1f} %" for name, row in models.items())
    return "the missing word of WikiText-2, equal parameters", told, "python benchmarks/blanks.py"


def transfer() -> Row:
    tasks = result("transfer")["tasks"]
    told = ", ".join(
        f"{name} with {labels} labels {100 * (gain := row['gain'])['mean']:+.1f} "
        f"({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})"
        for name, rows in tasks.items()
        for labels, row in rows.items()
    )
    return "points that masked pretraining on WikiText-2 adds, three seeds", told, "python benchmarks/transfer.py"


def writing(batch: str, kind: str) -> Row:
    speed = result("generation")["batches"][batch]["greedy"]["regard_is_times_as_fast_as"][f"regard {kind}"]
    told = ", ".join(f"{name} {between(row)}" for name, row in speed.items())
    what = f"writing 128 tokens (4 layers, d = 256), batch {batch}, weights in {kind}: times as fast as"
    return what, told, "python benchmarks/generation.py"


def translated(name: str) -> Row:
    found = result(f"translate-{name}")
    seeds, command = found["seeds"], f"python benchmarks/translators.py {name}"
    took = f"{sum(row['seconds'] for row in seeds) / len(seeds) / 60:.0f} minutes of training"
    if name.startswith("scan"):
        told = f"{100 * found['exact']['mean']:.1f} % ({100 * found['exact']['least']:.1f} at worst), {took}"
        return f"{name}: commands of the test file answered without a mistake", told, command
    told = f"BLEU {seeds[0]['bleu_lc']:.1f} without letter case, {seeds[0]['bleu']:.1f} with it, {took} on "
    told += f"{found['machine']['threads']} thread{'s' * (found['machine']['threads'] > 1)}"
    return f"{name}: English to German, validation part, beam 5", told, command


def interpreting(batch: str, kind: str) -> Row:
    speed = result("translation")["batches"][batch]["regard_is_times_as_fast_as"][f"regard {kind}"]
    told = ", ".join(f"{name} {between(row)}" for name, row in speed.items())
    what = f"translating with beam 5 (3 layers, d = 256), batch {batch}, weights in {kind}: times as fast as"
    return what, told, "python benchmarks/translation.py"


def rounded() -> Row:
    found = result("rounding")
    whole, *others = found["precisions"].items()
    told = f"BLEU {whole[1]['bleu_lc']:.2f} in float32; " + "; ".join(
        f"{name} {row['bleu_lc']:.2f}, {100 * row['same']:.1f} % of {found['lines']:,} translations the same"
        for name, row in others
    )
    what = f"weights rounded for decoding: multi30k-transformer after {found['steps']:,} steps, validation part, beam 5"
    return what, told, "python benchmarks/rounding.py RUN"


def aligned() -> Row:
    found = result("alignment")["found"]
    told = "; ".join(
        f"{kind}: " + ", ".join(f"{n} {100 * r['aligned']:.0f} %" for n, r in row.items() if isinstance(r, dict))
        for kind, row in found.items()
    )
    return "true links between words that attention finds, generated pairs", told, "python benchmarks/alignment.py"


def recurrent() -> Row:
    told = "; ".join(
        f"{kind} {between(row['times as long as plain']['fed'])}, {between(row['times as long as plain']['fed, slow'])}"
        for kind, row in result("recurrent").items()
        if isinstance(row, dict) and "milliseconds" in row
    )
    what = (
        "a step of training a recurrent translator whose attention feeds its state, and as a plain loop would do it: "
    )
    return what + "times as long as one that attends to all steps at once", told, "python benchmarks/recurrent.py"


def recalled(name: str) -> Row:
    found = result("recall")[name]
    strangers = ", ".join(f"{100 * share:.1f} % of {kind} names" for kind, share in found["strangers"].items())
    after = " after its pretraining" if name == "classical" else ""
    told = (
        f"{100 * found['exact']:.1f} % of {found['rows']}, calibration error {found['ece']:.3f}, "
        f"{found['train_minutes']:.0f} minutes of training{after}; "
        f"answers where 90 % of the right ones are kept: {strangers}"
    )
    return f"birthplaces of people set aside, {name} book", told, f"python benchmarks/recall.py {name}"


def hanging() -> Row:
    """What recall hangs on; the whole table stands in docs/recall.md."""
    found = result("recall_ablations")
    rows = {"commonest place": found["commonest place"], **found["rows"]}
    told = ", ".join(f"{name} {100 * row['mean']:.1f} %" for name, row in rows.items())
    what = f"birthplaces from the weights, {found['steps']} steps, mean of three seeds: with other attention"
    return what, told, "python benchmarks/recall_ablations.py"


def scenes() -> Row:
    found = result("scenes")
    least, took = found["least"], max(row["seconds"] for row in found["seeds"])
    told = f"{100 * least['exact']:.1f} % said exactly, {100 * least['pointing']:.1f} % of attention on the thing named"
    what = f"generated scenes, pairs never seen together, least of {len(found['seeds'])} seeds, {took:.0f} s"
    return what, told, "python benchmarks/scenes.py"


def captioned() -> Row:
    found = result("captions")
    mean = {kind: [row["beam 3"]["bleu4"] for row in found[kind]] for kind in ("looking", "blanked")}
    told = ", ".join(f"{kind} {sum(v) / len(v):.1f}" for kind, v in mean.items() if v)
    told += "".join(f", the {name} caption {row['bleu4']:.1f}" for name, row in found["constant"].items())
    if gain := found.get("gain", {}).get("beam 3"):
        told += f"; gain from looking {between(gain, 'mean')}"
    took = max(row["seconds"] for row in found["looking"]) / 60
    seeds = len(found["looking"])
    what = f"Flickr8k at 64 x 64, BLEU-4 on the dev part, beam 3, {seeds} seed(s), {took:.0f} minutes at most"
    return what, told, "python benchmarks/captions.py"


def dropped() -> Row:
    found = result("dropout")
    told = (
        f"{between(found['alone']['times_as_fast'])} alone, {between(found['training']['times_as_fast'])} in training"
    )
    return "dropout, times as fast as torch's", told, "python benchmarks/dropout.py"


def page() -> Row:
    told = "; ".join(
        f"{tokens} tokens {row['page_bytes'] / 1e6:.1f} MB, usable after {row['opened']['usable']:.2f} s, "
        f"first map after {row['opened']['drawn']:.2f} s"
        for tokens, row in result("look")["tokens"].items()
    )
    return "a page of 12 layers and 12 heads in Chromium", told, "python benchmarks/look.py"


def served() -> Row:
    found = result("serve")
    told = (
        f"{found['answers']:,} predictions and {found['pages']} pages, {found['kills']} kills of the model's process; "
        f"lost {len(found['lost'])}, mixed up {found['mixed']}"
    )
    return f"serving {found['clients']} clients for {found['seconds']:.0f} s", told, "python benchmarks/serve.py"


def foretold() -> Row:
    rows = result("predict")["configurations"].values()
    told = ", ".join(
        f"{what} {min(r[key] for r in rows):.2f} to {max(r[key] for r in rows):.2f}"
        for what, key in (("seconds", "seconds_ratio"), ("memory", "memory_ratio"))
    )
    return (
        f"`regard cost --predict` over what is then measured, {len(rows)} models",
        told,
        "python benchmarks/predict.py",
    )


def quality() -> list[Row]:
    """How good recipes are, and how fast what is theirs; without what was not measured yet."""
    made: list[Callable[[], Row]] = [partial(documents, name) for name in ("imdb", "sst2", "mr", "trec")]
    made += [folds, han, context, evidence, hops, shakespeare, wikitext, tokenised, blanks, transfer]
    made += [partial(writing, batch, kind) for batch in ("1", "64") for kind in ("float32", "float16", "int8")]
    made += [partial(translated, name) for name in TRANSLATORS] + [rounded, aligned, recurrent]
    made += [partial(interpreting, batch, kind) for batch in ("1", "16") for kind in ("float32", "float16", "int8")]
    made += [partial(recalled, name) for name in result("recall")]
    made += [hanging, scenes, captioned, dropped]
    made += [page, served, foretold]
    found = []
    for row in made:
        with contextlib.suppress(FileNotFoundError):
            found.append(row())
    return found


def main() -> None:
    machine = result("throughput")["machine"]
    table = "| what | result | command |\n|---|---|---|\n"
    table += "".join(f"| {what} | {found} | `{command}` |\n" for what, found, command in rows() + quality())
    files = (ROOT / "benchmarks" / "results").glob("*.json")
    days = sorted({day for file in files for day in re.findall(r'"date": "(\d{4}-\d\d-\d\d)', file.read_text())})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    where = f"{machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}, {when}"
    table += f"\nOn {where}; medians, with 95 % intervals. Speeds were measured side by side, with little else "
    table += "running; how good recipes are, beside other work.\n"
    fill(ROOT / "README.md", "measured", table)


if __name__ == "__main__":
    main()
