"""Write the table of measurements in the README from the result files in benchmarks/results.

python docs/readme_results.py
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import partial

from result_blocks import ROOT, fill_block, read_result

Row = tuple[str, str, str]
"""What was measured, the result, the command."""

TRANSLATORS = ("multi30k-transformer", "multi30k-rnn", "scan-simple")


def ratio(row: dict[str, float], value: str = "value") -> str:
    return f"{row[value]:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def speed_rows() -> list[Row]:
    attention, throughput = read_result("attention"), read_result("throughput")
    batching, kills = read_result("batching"), read_result("kills")
    speed = throughput["regard_is_times_as_fast_as"]
    dot, local, relative = attention["dot"], attention["local"], attention["relative"]
    same = all(kills[k] for k in ("best_model_identical", "last_state_identical", "metrics_identical"))
    run = "python benchmarks/{}.py"
    return [
        (
            "dot attention, forward and backward: time relative to fused attention with bare projections",
            f"{dot['mean']:.2f} on average over {len(dot['shapes'])} shapes, {dot['worst']:.2f} at worst",
            run.format("attention"),
        ),
        (
            "local attention, window 128: growth exponent from n = 512 to 8192",
            ratio(local["growth"]["exponent"]),
            run.format("attention"),
        ),
        (
            "local attention, window 128: speedup over masked fused attention at n = 4096",
            ratio(local["against masked"]["times faster"]),
            run.format("attention"),
        ),
        (
            "relative attention (Shaw et al.): time relative to dot at n = 512",
            ratio(relative["layer"]["ratio"]),
            run.format("attention"),
        ),
        (
            "a layer after recording: time relative to a layer that was never recorded",
            ratio(attention["recording"]["ratio"]),
            run.format("attention"),
        ),
        (
            "training a GPT (4 layers, d = 256): speedup over Hugging Face GPT-2, both in a plain PyTorch loop",
            ratio(speed["Hugging Face, both plain"], "median"),
            run.format("throughput"),
        ),
        (
            "the same, with regard's training loop (which keeps freed memory), theirs in a plain loop",
            ratio(speed["Hugging Face, as each comes"], "median"),
            run.format("throughput"),
        ),
        (
            "the same, with that memory setting for both",
            ratio(speed["Hugging Face, both prepared"], "median"),
            run.format("throughput"),
        ),
        (
            "the same, speedup over nanoGPT, each with its own loop",
            ratio(speed["nanoGPT, as each comes"], "median"),
            run.format("throughput"),
        ),
        (
            "FLOP rate of a training step, relative to a large matrix product",
            f"{throughput['share_of_the_product']:.0%} of {throughput['product_gflops']['median']:.0f} GFLOPS",
            run.format("throughput"),
        ),
        (
            "batches of similar length: tokens per second relative to random batches with padding: Transformer, HAN",
            ", ".join(f"{batching['models'][m]['like length']['ratio']:.2f}" for m in ("transformer", "han")),
            run.format("batching"),
        ),
        (
            f"{kills['kills']} kills at random moments of a run, then resumed",
            "the same weights, state and metrics, bit for bit" if same else "NOT the same",
            run.format("kills"),
        ),
    ]


def documents(name: str) -> Row:
    models = read_result(f"documents-{name}")["models"]
    text = ", ".join(f"{m} {100 * row['accuracy']:.1f} %" for m, row in models.items() if m != "nb-svm")
    seeds = max(len(row.get("seeds", [])) for row in models.values())
    count = "one seed" if seeds == 1 else f"mean of {seeds} seeds"
    base = f"NB-SVM {100 * models['nb-svm']['accuracy']:.1f} %"
    what = f"{name}, accuracy on held-out texts, {count}: recipes and NB-SVM"
    return what, f"{text}; {base}", f"python benchmarks/documents.py {name} --seeds {seeds}"


def folds() -> Row:
    data = read_result("folds-trec")
    what = f"trec, all {data['measured on']:,} training texts in ten folds, embeddings pretrained on other text"
    text = f"{data['recipe']} {100 * data['accuracy']:.1f} % (standard error {100 * data['standard error']:.1f}); "
    return what, text + f"NB-SVM {100 * data['nb-svm']:.1f} %", "python benchmarks/folds.py trec --jobs 2"


def han() -> Row:
    ways = read_result("han")["times_faster_than"]
    what = "an epoch of HAN: speedup over a padded (batch, sentences, words) tensor, and over the same packed"
    return what, f"{ratio(ways['padded'])}, {ratio(ways['packed'])}", "python benchmarks/han.py"


def context() -> Row:
    models = read_result("context")["models"]
    text = ", ".join(f"{name} {100 * row['accuracy']['mean']:.1f} %" for name, row in models.items())
    return "accuracy on texts that need the previous sentence (chance level 25 %)", text, "python benchmarks/context.py"


def evidence() -> Row:
    models = read_result("evidence")["models"]
    text = ", ".join(
        f"{n} {100 * r['evidence']['mean']:.0f} % ({_range(r['evidence'])}; uniform {100 * r['even']['mean']:.0f} %), "
        f"accuracy {_accuracy(r)}"
        if "evidence" in r
        else f"{n} accuracy {_accuracy(r)}"
        for n, r in models.items()
    )
    what = "attention on the decisive words, generated reviews, three seeds (lowest and highest)"
    return what, text, "python benchmarks/evidence.py"


def _range(data: dict) -> str:
    return f"{100 * min(data['values']):.0f} to {100 * max(data['values']):.0f}"


def _accuracy(row: dict) -> str:
    return f"{100 * row['accuracy']['mean']:.0f} %"


def hops() -> Row:
    data = read_result("hops")["penalties"]
    text = "; ".join(
        f"penalty {p}: {row['alike']['mean']:.2f}, {100 * row['accuracy']['mean']:.0f} %" for p, row in data.items()
    )
    return (
        "similarity of eight hops (1: identical) and accuracy, mean of three seeds",
        text,
        "python benchmarks/hops.py",
    )


def shakespeare() -> Row:
    data = read_result("shakespeare")
    text = ", ".join(f"{name} {row['loss']:.3f} in {row['seconds']:.0f} s" for name, row in data["recipes"].items())
    over = ", ".join(f"{name} {ratio(row)}" for name, row in data["time_over_nanogpt"].items())
    what = "tinyshakespeare: validation loss in nats per character; time relative to the configuration of nanoGPT"
    return what, f"{text}; {over}", "python benchmarks/shakespeare.py"


def wikitext() -> Row:
    data = read_result("wikitext2")
    parts = [f"{value:.1f} at a stride of {stride}" for stride, value in data["by_stride"].items()]
    text = f"{', '.join(parts)} tokens, after {data['seconds'] / 60:.0f} minutes, {data['threads']} thread(s)"
    return "WikiText-2, perplexity per word on the validation part", text, "python benchmarks/wikitext2.py"


def tokenizing() -> Row:
    data = read_result("tokenise")
    text = "; ".join(f"{name} {ratio(row)}" for name, row in data["bpe"]["ratio"].items())
    size = f"{data['bpe']['megabytes']:,.0f} MB of {data['text']}"
    what = f"tokenizing {size} (bpe) from disk to disk: speedup over the `tokenizers` library on text in memory"
    return what, text, "python benchmarks/tokenise.py"


def blanks() -> Row:
    models = read_result("blanks")["models"]
    text = ", ".join(f"{name} {100 * row['accuracy']['value']:.1f} %" for name, row in models.items())
    return "accuracy of the missing word in WikiText-2, equal parameters", text, "python benchmarks/blanks.py"


def transfer() -> Row:
    tasks = read_result("transfer")["tasks"]
    text = ", ".join(
        f"{name} with {labels} labels {100 * (gain := row['gain'])['mean']:+.1f} "
        f"({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})"
        for name, rows in tasks.items()
        for labels, row in rows.items()
    )
    return (
        "points of accuracy gained by masked pretraining, three seeds",
        text,
        "python benchmarks/transfer.py",
    )


def generating(batch: str, kind: str) -> Row:
    speed = read_result("generation")["batches"][batch]["greedy"]["regard_is_times_as_fast_as"][f"regard {kind}"]
    text = ", ".join(f"{name} {ratio(row)}" for name, row in speed.items())
    what = f"generating 128 tokens (4 layers, d = 256), batch {batch}, {kind} weights: speedup over"
    return what, text, "python benchmarks/generation.py"


def translators(name: str) -> Row:
    data = read_result(f"translate-{name}")
    seeds, command = data["seeds"], f"python benchmarks/translators.py {name}"
    took = f"{sum(row['seconds'] for row in seeds) / len(seeds) / 60:.0f} minutes of training"
    if name.startswith("scan"):
        text = f"{100 * data['exact']['mean']:.1f} % ({100 * data['exact']['least']:.1f} at worst), {took}"
        return f"{name}: exact match on the test file", text, command
    text = f"BLEU {seeds[0]['bleu_lc']:.1f} lowercased, {seeds[0]['bleu']:.1f} cased, {took} on "
    text += f"{data['machine']['threads']} thread{'s' * (data['machine']['threads'] > 1)}"
    return f"{name}: English to German, validation part, beam 5", text, command


def translating(batch: str, kind: str) -> Row:
    speed = read_result("translation")["batches"][batch]["regard_is_times_as_fast_as"][f"regard {kind}"]
    text = ", ".join(f"{name} {ratio(row)}" for name, row in speed.items())
    what = f"translating with beam 5 (3 layers, d = 256), batch {batch}, {kind} weights: speedup over"
    return what, text, "python benchmarks/translation.py"


def rounding() -> Row:
    data = read_result("rounding")
    whole, *others = data["precisions"].items()
    text = f"BLEU {whole[1]['bleu_lc']:.2f} in float32; " + "; ".join(
        f"{name} {row['bleu_lc']:.2f}, {100 * row['same']:.1f} % of {data['lines']:,} translations identical"
        for name, row in others
    )
    what = f"precision of the weights: multi30k-transformer after {data['steps']:,} steps, validation part, beam 5"
    return what, text, "python benchmarks/rounding.py RUN"


def alignment() -> Row:
    data = read_result("alignment")["found"]
    text = "; ".join(
        f"{kind}: " + ", ".join(f"{n} {100 * r['aligned']:.0f} %" for n, r in row.items() if isinstance(r, dict))
        for kind, row in data.items()
    )
    return "true word alignments found by attention, generated pairs", text, "python benchmarks/alignment.py"


def recurrent() -> Row:
    text = "; ".join(
        f"{kind} {ratio(row['times as long as plain']['fed'])}, {ratio(row['times as long as plain']['fed, slow'])}"
        for kind, row in read_result("recurrent").items()
        if isinstance(row, dict) and "milliseconds" in row
    )
    what = "training step of a recurrent translator with input feeding, and of a plain loop: time relative to "
    return what + "one without input feeding", text, "python benchmarks/recurrent.py"


def recall(name: str) -> Row:
    data = read_result("recall")[name]
    strangers = ", ".join(f"{100 * share:.1f} % of {kind} names" for kind, share in data["unknown_answered"].items())
    after = " after its pretraining" if name == "classical" else ""
    text = (
        f"{100 * data['exact']:.1f} % of {data['rows']}, calibration error {data['ece']:.3f}, "
        f"{data['train_minutes']:.0f} minutes of training{after}; "
        f"unknown names that are answered, at the threshold that keeps 90 % of the correct answers: {strangers}"
    )
    return f"birthplaces of held-out people, {name} book", text, f"python benchmarks/recall.py {name}"


def recall_ablations() -> Row:
    """What recall depends on; docs/recall.md has the whole table."""
    data = read_result("recall_ablations")
    rows = {"commonest place": data["commonest place"], **data["rows"]}
    text = ", ".join(f"{name} {100 * row['mean']:.1f} %" for name, row in rows.items())
    what = f"birthplaces from the weights, {data['steps']} steps, mean of three seeds: mechanisms"
    return what, text, "python benchmarks/recall_ablations.py"


def scenes() -> Row:
    data = read_result("scenes")
    least, took = data["least"], max(row["seconds"] for row in data["seeds"])
    text = (
        f"{100 * least['exact']:.1f} % exact captions, {100 * least['pointing']:.1f} % of attention on the named object"
    )
    what = f"generated scenes, unseen pairs of objects, worst of {len(data['seeds'])} seeds, {took:.0f} s"
    return what, text, "python benchmarks/scenes.py"


def captions() -> Row:
    data = read_result("captions")
    mean = {kind: [row["beam 3"]["bleu4"] for row in data[kind]] for kind in ("looking", "blanked")}
    text = ", ".join(f"{kind} {sum(v) / len(v):.1f}" for kind, v in mean.items() if v)
    text += "".join(f", the {name} caption {row['bleu4']:.1f}" for name, row in data["constant"].items())
    if gain := data.get("gain", {}).get("beam 3"):
        text += f"; gain from looking {ratio(gain, 'mean')}"
    took = max(row["seconds"] for row in data["looking"]) / 60
    seeds = len(data["looking"])
    what = f"Flickr8k at 64 x 64, BLEU-4 on the dev part, beam 3, {seeds} seed(s), {took:.0f} minutes at most"
    return what, text, "python benchmarks/captions.py"


def dropout() -> Row:
    data = read_result("dropout")
    text = f"{ratio(data['alone']['times_as_fast'])} alone, {ratio(data['training']['times_as_fast'])} in training"
    return "dropout: speedup over torch", text, "python benchmarks/dropout.py"


def attention_page() -> Row:
    text = "; ".join(
        f"{tokens} tokens {row['page_bytes'] / 1e6:.1f} MB, usable after {row['opened']['usable']:.2f} s, "
        f"first map after {row['opened']['drawn']:.2f} s"
        for tokens, row in read_result("look")["tokens"].items()
    )
    return "attention page with 12 layers and 12 heads in Chromium", text, "python benchmarks/look.py"


def serving() -> Row:
    data = read_result("serve")
    text = (
        f"{data['answers']:,} predictions and {data['pages']} pages, {data['kills']} kills of the model process; "
        f"lost {len(data['lost'])}, mixed up {data['mixed']}"
    )
    return f"serving {data['clients']} clients for {data['seconds']:.0f} s", text, "python benchmarks/serve.py"


def cost_prediction() -> Row:
    rows = read_result("predict")["configurations"].values()
    text = ", ".join(
        f"{what} {min(r[key] for r in rows):.2f} to {max(r[key] for r in rows):.2f}"
        for what, key in (("seconds", "seconds_ratio"), ("memory", "memory_ratio"))
    )
    return (
        f"`regard cost --predict` relative to the measurement, {len(rows)} models",
        text,
        "python benchmarks/predict.py",
    )


def quality_rows() -> list[Row]:
    """Quality and speed of the recipes. Results that do not exist yet are left out."""
    builders: list[Callable[[], Row]] = [partial(documents, name) for name in ("imdb", "sst2", "mr", "trec")]
    builders += [folds, han, context, evidence, hops, shakespeare, wikitext, tokenizing, blanks, transfer]
    builders += [partial(generating, batch, kind) for batch in ("1", "64") for kind in ("float32", "float16", "int8")]
    builders += [partial(translators, name) for name in TRANSLATORS] + [rounding, alignment, recurrent]
    builders += [partial(translating, batch, kind) for batch in ("1", "16") for kind in ("float32", "float16", "int8")]
    builders += [partial(recall, name) for name in read_result("recall")]
    builders += [recall_ablations, scenes, captions, dropout]
    builders += [attention_page, serving, cost_prediction]
    rows = []
    for build_row in builders:
        with contextlib.suppress(FileNotFoundError):
            rows.append(build_row())
    return rows


def main() -> None:
    machine = read_result("throughput")["machine"]
    table = "| what | result | command |\n|---|---|---|\n"
    table += "".join(f"| {what} | {text} | `{command}` |\n" for what, text, command in speed_rows() + quality_rows())
    files = (ROOT / "benchmarks" / "results").glob("*.json")
    days = sorted({day for file in files for day in re.findall(r'"date": "(\d{4}-\d\d-\d\d)', file.read_text())})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    where = f"{machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}, {when}"
    table += f"\nOn {where}; medians with 95 % intervals. Speeds were measured side by side on an idle machine; "
    table += "the quality of recipes was measured while other jobs ran.\n"
    fill_block(ROOT / "README.md", "measured", table)


if __name__ == "__main__":
    main()
