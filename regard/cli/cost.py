"""`regard cost`: what a mechanism, a layer, a model or a run costs, by formula and counted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UserError

WORDS = {
    "params": "parameters",
    "forward": "FLOPs forward",
    "backward": "FLOPs backward",
    "other": "other operations forward",
    "scores": "bytes of scores, were all kept",
    "activations": "bytes kept for the backward pass",
    "kv_cache": "bytes of KV cache",
    "steps": "sequential steps",
    "products": "matrix products one after the other",
    "path": "longest path, in layers",
    "span": "span, sums as trees",
    "serial": "span, inner products serial",
}


def cost(
    what: Annotated[
        str, typer.Argument(help="A mechanism, a layer, a model, a recipe, or a run folder.", metavar="MODEL")
    ],
    n: Annotated[int, typer.Option(min=1, help="Places: tokens of one text.")] = 128,
    m: Annotated[int | None, typer.Option(min=1, help="Places of the source, where there is one. [n]")] = None,
    d: Annotated[int | None, typer.Option(min=1, help="Width. [64 for a layer; a model's own]")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Heads. [4 for a layer; a model's own]")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of a model.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Attention of a model, such as local:window=64.")] = None,
    positions: Annotated[str | None, typer.Option(help="Positions, such as rotary.")] = None,
    vocab: Annotated[int | None, typer.Option(min=8, help="Words of a model. [8000, or as a recipe says]")] = None,
    classes: Annotated[int, typer.Option(min=2, help="Classes of a classifier.")] = 2,
    predict: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="Seconds an epoch of so many tokens takes here, and memory."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts in a batch, for --predict.")] = 32,
    sentence: Annotated[
        int, typer.Option(min=1, help="Tokens of a sentence, for --predict of models that read by them.")
    ] = 20,
    out: Annotated[Path | None, typer.Option(help="A page (.html) with the card and plots against n and d.")] = None,
    import_: Annotated[
        list[Path] | None, typer.Option("--import", metavar="FILE.py", help="Your own mechanisms; the file is run.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="JSON on stdout.")] = False,
) -> None:
    """Parameters, FLOPs, memory, steps, paths and span, for one text of n places, each by formula and counted on the
    operators that run. Work that a causal mask leaves out is counted, since formulas count it.

    \b
    Examples:
      regard cost dot --n 64 --d 64
      regard cost local:window=8 --n 256 --d 32 --json
      regard cost gpt --n 64 --d 64 --layers 2 --out cost.html
      regard cost transformer-base --n 30
      regard cost runs/han --n 60
    """
    from regard.config.plugins import import_files

    import_files(import_)
    given = {"d": d, "heads": heads, "layers": layers, "mechanism": mechanism, "positions": positions}
    module, name = _module(what, given, vocab, classes)
    from regard.theory.cost.cost_card import measure_cost
    from regard.theory.cost.crossover import crossover_lengths

    made = measure_cost(module, name, n, m)
    width = d or 64
    shown: dict[str, Any] = {**made.as_dict(), "crossings": {"d": width, **crossover_lengths(width)}}
    if predict is not None:
        from regard.theory.cost.predict_time import predict_time as seconds

        shown["predicted"] = seconds(module, n, batch, predict, sentence_length=sentence)
    if json_:
        print(json.dumps(shown, ensure_ascii=False))
    else:
        _show(shown)
    if out is not None:
        from regard.theory.cost.cost_page import write_page

        print(f"page: {write_page(made, width, out)}", file=sys.stderr if json_ else sys.stdout)


def _module(what: str, given: dict[str, Any], vocab: int | None, classes: int) -> tuple[Any, str]:
    """What is meant: a folder is a run, a .yaml a recipe, other names are layers before models."""
    import torch

    from regard.theory.cost import build_subject

    folder, recipe = Path(what), what.endswith((".yaml", ".yml"))
    if (folder.is_dir() or recipe) and any(value is not None for value in given.values()):
        kind = "a recipe" if recipe else "a run"
        raise UserError(f"{what} is {kind}, whose sizes are known: leave out --d, --heads, --layers and the like")
    if folder.is_dir():
        from regard.tasks.base_run import Run

        return Run.load(folder).model, what
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if recipe:
            return _of_recipe(what, vocab, classes), what
        layer = build_subject.build_layer(what, given["d"] or 64, given["heads"] or 4, given["positions"])
        if layer is not None:
            return layer, what
        from regard.tasks.base import TASKS
        from regard.tasks.build_settings import task_models

        known = {f"{task}/{name}": config for task in TASKS for name, config in task_models(task).items()}
        return build_subject.build_model(what, known, given, vocab, classes), what


def _of_recipe(path: str, vocab: int | None, classes: int) -> Any:
    """The model that a file of settings describes; the words are those that its tokenizer may have."""
    from regard.config import settings
    from regard.tasks.build_settings import build_settings
    from regard.theory.cost import build_subject

    tree = settings.load_settings(path)
    task = tree.pop("task", None)
    if task is None or "models" in tree:
        raise UserError(f"{path} is no recipe of `regard train`, with a task and one model; cost its models by name")
    found = build_settings(str(task), tree)
    words = vocab or getattr(getattr(found, "tokenizer", None), "vocab_size", None) or build_subject.DEFAULT_VOCAB_SIZE
    if not hasattr(found.model, "build"):
        raise UserError(f"{path} describes a {found.model_name}, which is fitted and has no layers to cost")
    return build_subject.build_task_model(found.model, found.task, words, classes)


def _show(shown: dict[str, Any]) -> None:
    sizes = f"n = {shown['sizes']['n']}"
    if shown["sizes"]["m"] != shown["sizes"]["n"]:
        sizes += f", source of {shown['sizes']['m']}"
    print(f"{shown['name']}, one text, {sizes}")
    if shown["parts"]:
        print(f"\n{'part':36} {'parameters':>13} {'FLOPs':>16} {'backward':>16} {'scores, bytes':>14}")
        for item in shown["parts"]:
            print(
                f"{item['name'][:36]:36} {item['params']:>13,} {item['flops']:>16,} {item['backward']:>16,} "
                f"{item['memory']:>14,}"
            )
    formula, counted = shown["formula"] or {}, shown["counted"]
    print(f"\n{'':36} {'by formula':>20} {'counted':>20}")
    for key, word in WORDS.items():
        if formula.get(key) is None and counted.get(key) is None:
            continue
        cells = [f"{v:,}" if v is not None else "-" for v in (formula.get(key), counted.get(key))]
        agrees = shown["agrees"].get(key)
        mark = "" if key not in shown["agrees"] else {True: "agree", False: "DIFFER", None: "not compared"}[agrees]
        print(f"{word:36} {cells[0]:>20} {cells[1]:>20}  {mark}".rstrip())
    if shown["unknown"]:
        print(f"operators without a rule, counted as one step: {', '.join(shown['unknown'])}")
    cross = shown["crossings"]
    print(
        f"\nself-attention of width {cross['d']} costs as much as a GRU at n = {cross['gru']}, as an LSTM at n = "
        f"{cross['lstm']}, and more than a plain RNN at any n"
    )
    if "predicted" in shown:
        p = shown["predicted"]
        print(
            f"predicted on this machine: {p['seconds_step'] * 1e3:.3g} ms a step of {p['batch']} texts, "
            f"{p['seconds_epoch']:.3g} s an epoch of {p['tokens']:,} tokens, {p['memory'] / 2**20:,.0f} MiB"
        )
