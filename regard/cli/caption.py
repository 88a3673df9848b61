"""`regard train caption`, `regard caption` and `regard scenes`: what a picture shows, and where each word was looked
for."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options as o
from regard.cli.train import app, run
from regard.cli.use import Imports, Json, RunFolder, open_run

logger = logging.getLogger(__name__)


@app.command("caption")
def train_caption(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Pictures (a folder or a zip; or their features: .npz, .safetensors, a folder of .npy) and their "
            "captions: lines of file, tab, caption (also .csv, .gz), or COCO's JSON.",
            metavar="PICTURES CAPTIONS",
        ),
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(help="Validation: --valid PICTURES --valid CAPTIONS. [a twentieth is set aside]"),
    ] = None,
    model: Annotated[str | None, typer.Option(help="rnn or transformer, the decoder. [rnn]")] = None,
    mechanism: o.Mechanism = None,
    positions: o.Positions = None,
    size: Annotated[int | None, typer.Option(min=8, help="Side of a picture as it is read. [64]")] = None,
    backbone: o.Backbone = None,
    weights: o.Weights = None,
    download: o.Download = False,
    smoothing: Annotated[float | None, typer.Option(help="Label smoothing. [0.1]")] = None,
    doubly: Annotated[float | None, typer.Option(help="Weight of doubly stochastic attention. [0]")] = None,
    scored: Annotated[
        int | None, typer.Option(min=0, help="Evaluate by the BLEU of so many pictures. [0: by the loss]")
    ] = None,
    blank: Annotated[bool, typer.Option("--blank", help="Hide the pictures: what is said without looking.")] = False,
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
    tokenizer: Annotated[str | None, typer.Option(help="spaces (whole words) or bpe. [spaces]")] = None,
    vocab: Annotated[int | None, typer.Option(min=7, help="Size of the vocabulary. [3000]")] = None,
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
    """Train a captioner: a small convolutional net makes a grid of the picture (or a backbone of timm does, or features
    are given), and each word attends to it. Without --epochs, --steps or --budget it takes five epochs.

    \b
    rnn           each word's state attends: --mechanism bilinear, additive or dot
    transformer   all words at once, with any mechanism and positions

    \b
    Examples:
      regard train caption train.zip train.captions.tsv --epochs 1 --out runs/scenes
      regard train caption train.zip train.captions.tsv --model transformer --steps 3 --set augment.zoom=0.8
      regard train caption train.zip train.captions.tsv --valid unseen.zip --valid unseen.captions.tsv --steps 3
      regard train caption features.npz train.captions.tsv --steps 3
      regard train caption --resume --out runs/scenes
    """
    said = locals()
    flags = {
        "seed": seed,
        "origin": from_,
        "smoothing": smoothing,
        "doubly": doubly,
        "model": {"name": model, "mechanism": mechanism, "positions": positions},
        "data": {
            "train": data or None,
            "valid": valid or None,
            "size": size,
            "backbone": backbone,
            "weights": weights,
            "download": download or None,
            "batch": batch,
            "scored": scored,
            "blank": blank or None,
        },
        "tokenizer": {"kind": tokenizer, "vocab": vocab},
        "train": o.training(said),
    }
    run("caption", flags, config, set_, import_, out, resume, overwrite, quiet, json_)


def caption(
    folder: RunFolder,
    pictures: Annotated[
        list[Path], typer.Argument(help="Pictures: files, folders or zips; or features.", metavar="PICTURE...")
    ],
    out: Annotated[
        Path | None, typer.Option(help="A page with each word's map over the picture (.html), or the maps (.json).")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="So many beams; 1 is greedy.")] = 5,
    alpha: Annotated[float, typer.Option(min=0.0, help="Scores are divided by this power of the length.")] = 0.7,
    consensus: Annotated[
        int, typer.Option(min=0, help="Draw so many, and take the one that most agree with, instead of beams.")
    ] = 0,
    faithful: Annotated[
        bool, typer.Option(help="With --out: measure how far to believe the maps, by erasing places.")
    ] = True,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Say what pictures show. With --out a page lets you go through the words and see where each was looked for, and
    how far to believe that; .json holds the maps and figures themselves.

    \b
    Examples:
      regard caption runs/scenes photo.png
      regard caption runs/scenes photo.png --out look.html
      regard caption runs/scenes unseen.zip --beam 1 --json
      regard caption runs/scenes photo.png --consensus 20
    """
    from regard.errors import UserError

    ending = "" if out is None else out.suffix.lower()
    if out is not None and ending not in (".html", ".json"):
        raise UserError(f"--out writes a page (.html) or the maps (.json), and was given {str(out)!r}")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"there is no folder {str(out.parent)!r} to write {out.name} into")
    opened = open_run(folder, import_, "caption")
    from regard.explain.subject import progress
    from regard.tasks.caption.page import MOST

    if sys.stderr.isatty():
        progress.set(lambda done, of: print(f"\rmeasured {done} of {of} ", end="\r", file=sys.stderr, flush=True))
    how = {"beam": beam, "alpha": alpha, "consensus": consensus, "told": _counter()}
    found = opened.caption(pictures, maps=out is not None, faithful=MOST if faithful and out is not None else 0, **how)
    for one in found:
        if json_:
            print(json.dumps(one.as_dict(), ensure_ascii=False))
        else:
            print(one.text if len(found) == 1 else f"{one.name}\t{one.text}")
    if out is None:
        return
    if ending == ".json":
        out.write_text(json.dumps([one.as_dict() for one in found], ensure_ascii=False), encoding="utf-8")
    else:
        from regard.tasks.caption.page import page

        out.write_text(page(opened, found, pictures), encoding="utf-8")
    logger.info(f"{'maps' if ending == '.json' else 'page'}: {out}")


def scenes(
    out: Annotated[Path, typer.Option(help="Folder for the pictures, captions and boxes.")] = Path("scenes"),
    count: Annotated[int, typer.Option(min=1, help="How many to learn from.")] = 8000,
    others: Annotated[int, typer.Option(min=1, help="How many of each part to measure on.")] = 500,
    size: Annotated[int, typer.Option(min=32, help="Side of a picture.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same scenes.")] = 0,
) -> None:
    """Write generated scenes: two coloured shapes at known places, their true sentence, and where each is. Scenes of
    unseen.zip show pairs of things that no scene of train.zip shows together; strange.zip, things that none shows.

    \b
    Example:
      regard scenes --count 60 --others 10 --out scenes
    """
    from regard.data.synthetic.scene_files import write_scenes

    write_scenes(out, count, seed=seed, size=size, eval_count=others)
    print(f"{count:,} scenes to learn from; valid, unseen and strange of {others:,} each: {out}")
    print(f"try: regard train caption {out}/train.zip {out}/train.captions.tsv --out runs/scenes")


def _counter() -> Callable[[int], None] | None:
    """Tells on a terminal how many are done."""
    done = 0

    def told(count: int) -> None:
        nonlocal done
        done += count
        print(f"\r{done:,} captioned ", end="\r", file=sys.stderr, flush=True)

    return told if sys.stderr.isatty() else None
