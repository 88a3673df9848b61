"""`regard cost`: the cost of a mechanism, layer, model, recipe or run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.common import Imports, Json

AGREES = {True: "agree", False: "DIFFER", None: "not compared"}


def cost(
    subject: Annotated[
        str, typer.Argument(help="A mechanism, a layer, a model, a recipe, or a run folder.", metavar="MODEL")
    ],
    n: Annotated[int, typer.Option(min=1, help="Length of the text in tokens.")] = 128,
    m: Annotated[int | None, typer.Option(min=1, help="Length of the source, for models that have one. [n]")] = None,
    dim: Annotated[int | None, typer.Option(min=1, help="Width. [64 for a layer; the default of a model]")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Heads. [4 for a layer; the default of a model]")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of a model.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Attention mechanism of a model: local:window=64.")] = None,
    positions: Annotated[str | None, typer.Option(help="Position encoding, such as rotary.")] = None,
    vocab_size: Annotated[
        int | None, typer.Option(min=8, help="Size of the vocabulary. [8000, or that of the recipe]")
    ] = None,
    num_classes: Annotated[int, typer.Option(min=2, help="Number of classes of a classifier.")] = 2,
    predict: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="Predict time and memory of an epoch of this many tokens here."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts in a batch, for --predict.")] = 32,
    sentence_length: Annotated[
        int, typer.Option(min=1, help="Tokens in a sentence, for --predict of hierarchical models.")
    ] = 20,
    out: Annotated[Path | None, typer.Option(help="Write a page (.html) with plots against length and width.")] = None,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Compute what a mechanism, model or run costs.

    Parameters, FLOPs, memory, sequential steps, path lengths and span for one text: by formula, and counted on the
    operators that run. Work that a causal mask leaves out is counted, as the formulas count it.

    \b
    Examples:
      regard cost dot --n 64 --dim 64
      regard cost local:window=8 --n 256 --dim 32 --json
      regard cost gpt --n 64 --dim 64 --layers 2 --out cost.html
      regard cost transformer-base --n 30
      regard cost runs/han --n 60
    """
    from regard.config.plugins import import_files
    from regard.theory.cost.cost import build_module
    from regard.theory.cost.cost_card import measure_cost
    from regard.theory.cost.crossover import crossover_lengths

    import_files(import_)
    options = {"d": dim, "heads": heads, "layers": layers, "mechanism": mechanism, "positions": positions}
    module = build_module(subject, options, vocab_size, num_classes)
    card, width = measure_cost(module, subject, n, m), dim or 64
    data: dict[str, Any] = {**card.as_dict(), "crossover": {"d": width, **crossover_lengths(width)}}
    if predict is not None:
        from regard.theory.cost.predict_time import predict_time

        data["predicted"] = predict_time(module, n, batch, predict, sentence_length=sentence_length)
    print(json.dumps(data, ensure_ascii=False) if json_ else format_cost(data))
    if out is not None:
        from regard.theory.cost.cost_page import write_page

        print(f"page: {write_page(card, width, out)}", file=sys.stderr if json_ else sys.stdout)


def format_cost(data: dict[str, Any]) -> str:
    """Format a cost card for the terminal: the parts, then the totals by formula and counted."""
    from regard.theory.cost.cost_page import TITLES

    n, m = data["sizes"]["n"], data["sizes"]["m"]
    lines = [f"{data['name']}, one text, n = {n}" + (f", source of {m}" if m != n else "")]
    if data["parts"]:
        lines += ["", f"{'part':36} {'parameters':>13} {'FLOPs':>16} {'backward':>16} {'scores, bytes':>14}"]
        for part in data["parts"]:
            numbers = f"{part['params']:>13,} {part['flops']:>16,} {part['backward']:>16,} {part['memory']:>14,}"
            lines.append(f"{part['name'][:36]:36} {numbers}")
    formula, counted = data["formula"] or {}, data["counted"]
    lines += ["", f"{'':42} {'by formula':>20} {'counted':>20}"]
    for key, title in TITLES.items():
        values = (formula.get(key), counted.get(key))
        if values == (None, None):
            continue
        cells = [f"{value:,}" if value is not None else "-" for value in values]
        agrees = AGREES[data["agrees"][key]] if key in data["agrees"] else ""
        lines.append(f"{title:42} {cells[0]:>20} {cells[1]:>20}  {agrees}".rstrip())
    if data["unknown"]:
        lines.append(f"operators without a rule, counted as one step: {', '.join(data['unknown'])}")
    lengths = data["crossover"]
    lines += [
        "",
        f"self-attention of width {lengths['d']} costs as much as a GRU at n = {lengths['gru']}, as an LSTM at n = "
        f"{lengths['lstm']}, and more than a plain RNN at any n",
    ]
    if "predicted" in data:
        p = data["predicted"]
        lines.append(
            f"predicted on this machine: {p['seconds_step'] * 1e3:.3g} ms per step of {p['batch']} texts, "
            f"{p['seconds_epoch']:.3g} s per epoch of {p['tokens']:,} tokens, {p['memory'] / 2**20:,.0f} MiB"
        )
    return "\n".join(lines)
