"""`regard train images`: a classifier of pictures by spatial self-attention."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import options as o
from regard.cli.train import run


def images(
    data: Annotated[
        str | None,
        typer.Argument(
            help="A folder, or a zip, with one subfolder of pictures for each class; or of features (.npy)."
        ),
    ] = None,
    valid: Annotated[str | None, typer.Option(help="Validation folder; without it a tenth is set aside.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="dot, local-2d:window=3, additive, ... [dot]")] = None,
    positions: Annotated[str | None, typer.Option(help="axial, relative-2d, none, ... [axial]")] = None,
    size: Annotated[int | None, typer.Option(min=8, help="Side of a picture as it is read. [64]")] = None,
    backbone: o.Backbone = None,
    weights: o.Weights = None,
    download: o.Download = False,
    from_: o.From = None,
    epochs: o.Epochs = None,
    steps: o.Steps = None,
    budget: o.Budget = None,
    out: o.Out = None,
    resume: o.Resume = False,
    overwrite: o.Overwrite = False,
    seed: o.Seed = None,
    lr: o.Lr = None,
    optimizer: o.Optimizer = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Pictures in a batch. [64]")] = None,
    accumulate: o.Accumulate = None,
    patience: o.Patience = None,
    average: o.Average = None,
    precision: o.Precision = None,
    devices: o.Devices = None,
    nodes: o.Nodes = None,
    strategy: o.Strategy = None,
    config: o.Config = None,
    set_: o.Set = None,
    import_: o.Imports = None,
    quiet: o.Quiet = False,
    json_: o.Json = False,
) -> None:
    """Train a classifier of pictures: a small convolutional net makes a grid, whose places attend to each other.
    `regard train classify` on such a folder is the same. Without --epochs, --steps or --budget it takes five epochs.

    \b
    Examples:
      regard train images pictures --epochs 1 --out runs/pictures
      regard train images pictures --mechanism local-2d:window=2 --positions none --steps 3
      regard train images pictures --mechanism local-2d:window=2 --positions relative-2d --steps 3
      regard train images --resume --out runs/pictures
    """
    said = locals()
    seen = {"backbone": backbone, "weights": weights, "download": download or None}
    flags = {
        "seed": seed,
        "origin": from_,
        "model": {"mechanism": mechanism, "positions": positions},
        "data": {"train": data, "valid": valid, "size": size, "batch": batch, **seen},
        "train": o.training(said),
    }
    run("images", flags, config, set_, import_, out, resume, overwrite, quiet, json_)
