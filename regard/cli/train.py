"""`regard train TASK ...`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UserError
from regard.settings import load, merge, overrides, seconds

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Train a model on your own file.")


@app.command("classify")
def classify(
    data: Annotated[
        str | None,
        typer.Argument(
            help="CSV, TSV, JSONL, Parquet (also .gz), `label text` lines, or a folder with one subfolder a class."
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text: its name, or its number.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the class.")] = None,
    multi_label: Annotated[
        bool, typer.Option("--multi-label", help="Any number of labels a document, such as drama|war.")
    ] = False,
    class_weights: Annotated[str | None, typer.Option(help="balanced, or good=1,bad=5. [all alike]")] = None,
    valid: Annotated[str | None, typer.Option(help="Validation file; without it a tenth is set aside.")] = None,
    model: Annotated[str | None, typer.Option(help="han, transformer, nb-svm, ...: see `regard list`. [han]")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Attention by name, such as local:window=64.")] = None,
    positions: Annotated[str | None, typer.Option(help="Positions by name, such as rotary.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data. [5]")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps instead of epochs.")] = None,
    budget: Annotated[str | None, typer.Option(help="Time instead of epochs: 90s, 2min, 1h.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder. [runs/FILE-MODEL]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    seed: Annotated[int | None, typer.Option(help="Same seed, same result. [0]")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate at its highest. [0.001]")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adamw or muon. [adamw]")] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens in a batch. [4096]")] = None,
    accumulate: Annotated[int | None, typer.Option(min=1, help="Compute each batch in N parts. [1]")] = None,
    patience: Annotated[int | None, typer.Option(min=1, help="Stop after N evaluations without gain.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="words, bpe or chars. [words]")] = None,
    vocab: Annotated[int | None, typer.Option(min=7, help="Size of the vocabulary. [20000]")] = None,
    precision: Annotated[str | None, typer.Option(help="32, auto, bf16-mixed or 16-mixed. [32]")] = None,
    devices: Annotated[int | None, typer.Option(min=1, help="Processes or accelerators. [1]")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Machines, under torchrun. [1]")] = None,
    strategy: Annotated[str | None, typer.Option(help="auto, ddp, fsdp, ... [auto]")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings from a YAML or JSON file.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting: model.hidden=100.")
    ] = None,
    import_: Annotated[
        list[Path] | None, typer.Option("--import", metavar="FILE.py", help="Your own mechanisms; the file is run.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Result as JSON on stdout, progress on stderr.")] = False,
) -> None:
    """Train a classifier of texts. Without --epochs, --steps or --budget it takes five epochs.

    \b
    Examples:
      regard train classify reviews.csv --text review --label sentiment --model han --epochs 2 --out runs/han
      regard train classify reviews.csv --model transformer --mechanism dot --positions sinusoidal --steps 20
      regard train classify --resume --out runs/han
    """
    from regard.plugins import import_files
    from regard.runs.start import train
    from regard.training.interrupts import Interrupted
    from regard.training.machine import rank

    import_files(import_ or [])
    tree: dict[str, Any] = load(config) if config else {}
    if (task := tree.pop("task", "classify")) != "classify":
        raise UserError(f"{config} holds settings for the task {task!r}, not for 'classify'")
    flags = {
        "seed": seed,
        "model": {"name": model, "mechanism": mechanism, "positions": positions},
        "data": {
            "train": data,
            "valid": valid,
            "text": text,
            "label": label,
            "labels": "many" if multi_label else None,
            "class_weights": class_weights,
            "batch_tokens": batch_tokens,
        },
        "tokenizer": {"kind": tokenizer, "vocab": vocab},
        "train": {
            "epochs": epochs,
            "steps": steps,
            "budget": seconds(budget),
            "lr": lr,
            "optimizer": optimizer,
            "accumulate": accumulate,
            "patience": patience,
            "precision": precision,
            "devices": devices,
            "nodes": nodes,
            "strategy": strategy,
        },
    }
    tree = merge(merge(tree, _given(flags)), overrides(set_ or []))
    out_stream = sys.stderr if json_ else sys.stdout

    def say(line: str) -> None:
        if not quiet:
            print(line, file=out_stream, flush=True)

    try:
        run = train("classify", settings=tree, out=out, resume=resume, overwrite=overwrite, progress=not quiet, say=say)
    except Interrupted as stop:
        if rank() == 0:
            print(f"regard: stopped at step {stop.step}; nothing is lost. Go on with", file=sys.stderr)
            print(f"  regard train classify --resume --out {stop.folder}", file=sys.stderr)
        raise typer.Exit(128 + stop.signal) from None
    finish(run, json_, say)


def finish(run: Any, json_: bool, say: Any) -> None:
    """Tell how it ended and what can be done next."""
    import json

    from regard.training.machine import rank

    if rank():
        return
    if json_:
        keys = ("metrics", "steps", "seconds", "parameters", "labels")
        print(json.dumps({"run": str(run.folder), **{k: run.config.get(k) for k in keys}}))
        return
    reached = "  ".join(f"{name} {value:.4f}" for name, value in run.metrics.items())
    say(f"validation: {reached}")
    say(f'try: regard predict {run.folder} "some text"')


def _given(tree: dict[str, Any]) -> dict[str, Any]:
    """What the user did say."""
    kept = {k: _given(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}
    return {k: v for k, v in kept.items() if v != {}}
