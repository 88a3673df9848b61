"""Options that every `regard train TASK` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.config.settings import seconds
from regard.errors import UserError

Mechanism = Annotated[str | None, typer.Option(help="Attention by name, such as local:window=64.")]
Positions = Annotated[str | None, typer.Option(help="Positions by name, such as rotary.")]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Start from a trained run: its tokenizer, sizes and weights. Or from a .yaml of settings, whose run is "
        "trained first where it is not yet there.",
    ),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Passes over the data. [5]")]
Steps = Annotated[int | None, typer.Option(min=1, help="Steps instead of epochs.")]
Budget = Annotated[str | None, typer.Option(help="Time instead of epochs: 90s, 2min, 1h.")]
Out = Annotated[Path | None, typer.Option(help="Run folder. [runs/FILE-MODEL]")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")]
Seed = Annotated[int | None, typer.Option(help="Same seed, same result. [0]")]
Lr = Annotated[float | None, typer.Option(help="Learning rate at its highest. [0.001]")]
Optimizer = Annotated[str | None, typer.Option(help="adamw or muon. [adamw]")]
BatchTokens = Annotated[int | None, typer.Option(min=1, help="Tokens in a batch. [4096]")]
Accumulate = Annotated[int | None, typer.Option(min=1, help="Compute each batch in N parts. [1]")]
Patience = Annotated[int | None, typer.Option(min=1, help="Stop after N evaluations without gain.")]
Average = Annotated[
    float | None,
    typer.Option(help="Keep a moving average of the weights, not a mean of checkpoints: its decay, 0.999."),
]
Precision = Annotated[str | None, typer.Option(help="32, auto, bf16-mixed or 16-mixed. [32]")]
Devices = Annotated[int | None, typer.Option(min=1, help="Processes or accelerators. [1]")]
Nodes = Annotated[int | None, typer.Option(min=1, help="Machines, under torchrun. [1]")]
Strategy = Annotated[str | None, typer.Option(help="auto, ddp, fsdp, ... [auto]")]
Config = Annotated[Path | None, typer.Option(help="Settings from a YAML or JSON file.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting: model.hidden=100.")]
Imports = Annotated[
    list[Path] | None, typer.Option("--import", metavar="FILE.py", help="Your own mechanisms; the file is run.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Json = Annotated[bool, typer.Option("--json", help="Result as JSON on stdout, progress on stderr.")]


TRAINING = ("epochs", "steps", "lr", "optimizer", "accumulate", "patience", "average")
TRAINING += ("precision", "devices", "nodes", "strategy")


def training(said: dict[str, Any]) -> dict[str, Any]:
    """The settings `train` of a command, from all that was said to it."""
    return {name: said[name] for name in TRAINING} | {"budget": seconds(said["budget"])}


Backbone = Annotated[
    str | None, typer.Option(help="A model of timm that reads the pictures, frozen. [a small net, trained along]")
]
Weights = Annotated[
    str | None, typer.Option(help="Its weights, .safetensors. [those of timm, if they are on this machine]")
]
Download = Annotated[bool, typer.Option("--download", help="Fetch its weights if they are not on this machine.")]


def without_words(flags: dict[str, Any]) -> None:
    """The flags of a classifier of pictures: what is said of words is an error there."""
    data = flags["data"]
    said = [f"--{k.replace('_', '-')}" for k in ("text", "label", "labels", "class_weights") if data.pop(k) is not None]
    said += [f"--{name}" for name, value in flags.pop("tokenizer").items() if value is not None]
    said += [f"--{name}" for name in ("members", "smoothing") if flags.pop(name) is not None]
    said += ["--batch-tokens"] if data.pop("batch_tokens") is not None else []
    if said:
        raise UserError(f"{', '.join(said)} say nothing to a classifier of pictures; leave them out")


def given(tree: dict[str, Any]) -> dict[str, Any]:
    """What the user did say."""
    kept = {k: given(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}
    return {k: v for k, v in kept.items() if v != {}}
