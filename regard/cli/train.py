"""`regard train TASK ...`"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import options as o
from regard.config.messages import configure
from regard.config.settings import LENGTHS, load, merge, overrides
from regard.errors import UserError

logger = logging.getLogger(__name__)

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Train a model on your own file.")


@app.command("classify")
def classify(
    data: Annotated[
        str | None,
        typer.Argument(
            help="CSV, TSV, JSONL, Parquet (also .gz), `label text` lines, or a folder with one subfolder a class, of "
            "texts or of pictures (as `regard train images`)."
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
    mechanism: o.Mechanism = None,
    positions: o.Positions = None,
    members: Annotated[int | None, typer.Option(min=1, help="How many of them are trained, to vote. [1]")] = None,
    smoothing: Annotated[float | None, typer.Option(help="Label smoothing. [0]")] = None,
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
    batch_tokens: o.BatchTokens = None,
    accumulate: o.Accumulate = None,
    patience: o.Patience = None,
    average: o.Average = None,
    tokenizer: Annotated[str | None, typer.Option(help="words, bpe or chars. [words]")] = None,
    vocab: Annotated[int | None, typer.Option(min=7, help="Size of the vocabulary. [20000]")] = None,
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
    """Train a classifier of texts. Without --epochs, --steps or --budget it takes five epochs.

    \b
    Examples:
      regard train classify reviews.csv --text review --label sentiment --model han --epochs 2 --out runs/han
      regard train classify reviews.csv --model transformer --mechanism dot --positions sinusoidal --steps 20
      regard train classify reviews.csv --from runs/bert --steps 20
      regard train classify --resume --out runs/han
    """
    said = locals()
    flags = {
        "seed": seed,
        "origin": from_,
        "members": members,
        "smoothing": smoothing,
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
        "train": o.training(said),
    }
    if pictured(data, out if resume else None):
        o.without_words(flags)
        run("images", flags, config, set_, import_, out, resume, overwrite, quiet, json_)
        return
    run("classify", flags, config, set_, import_, out, resume, overwrite, quiet, json_)


@app.command("language")
def language(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files and folders of text (.txt, .md, also .gz), of any size; and columns of tables, such as "
            "reviews.csv:review."
        ),
    ] = None,
    objective: Annotated[str | None, typer.Option(help="causal, masked, blank or span. [causal]")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="gpt, ngram-gpt, cnn (causal, span), bert, preln-bert (masked), birnn (blank). [the first]"),
    ] = None,
    valid: Annotated[str | None, typer.Option(help="Validation text; without it the last tenth.")] = None,
    block: Annotated[int | None, typer.Option(min=2, help="Tokens in a window. [256]")] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="How far the window moves in validation. [a whole one]")
    ] = None,
    whole_words: Annotated[bool, typer.Option("--whole-words", help="masked: hide all parts of a word.")] = False,
    next_sentence: Annotated[
        bool, typer.Option("--next-sentence", help="masked: also ask whether two sentences follow each other.")
    ] = False,
    documents: Annotated[
        str | None, typer.Option(help="What a document is: file, blank (between blank lines), line. [file]")
    ] = None,
    mechanism: o.Mechanism = None,
    positions: o.Positions = None,
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
    batch_tokens: o.BatchTokens = None,
    accumulate: o.Accumulate = None,
    patience: o.Patience = None,
    average: o.Average = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="bpe, chars, words, or spaces for text cut into words already. [bpe]")
    ] = None,
    vocab: Annotated[int | None, typer.Option(min=7, help="Size of the vocabulary. [8000 for bpe]")] = None,
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
    """Train a language model. Without --epochs, --steps or --budget it takes five epochs.

    \b
    causal   the next word                               --model gpt, ngram-gpt or cnn
    masked   words that were hidden                      --model bert or preln-bert
    blank    each word, from those on both sides of it   --model birnn
    span     a stretch that was taken out                --model gpt, ngram-gpt or cnn

    \b
    Examples:
      regard train language corpus.txt --epochs 2 --block 64 --out runs/gpt
      regard train language corpus.txt --objective masked --whole-words --epochs 2 --block 64 --out runs/bert
      regard train language corpus.txt books --objective blank --tokenizer words --epochs 2 --block 64
      regard train language reviews.csv:review --objective blank --tokenizer words --set model.cell=gru --epochs 2
      regard train language corpus.txt --tokenizer chars --model cnn --epochs 2 --block 64 --stride 32
      regard train language corpus.txt --from runs/gpt --epochs 2 --block 64
      regard train language --resume --out runs/gpt
    """
    said = locals()
    flags = {
        "seed": seed,
        "origin": from_,
        "objective": objective,
        "corruption": {"whole_words": whole_words or None, "next_sentence": next_sentence or None},
        "model": {"name": model, "mechanism": mechanism, "positions": positions},
        "data": {
            "train": data or None,
            "valid": valid,
            "block": block,
            "stride": stride,
            "documents": documents,
            "batch_tokens": batch_tokens,
        },
        "tokenizer": {"kind": tokenizer, "vocab": vocab},
        "train": o.training(said),
    }
    run("language", flags, config, set_, import_, out, resume, overwrite, quiet, json_)


@app.command("translate")
def translate(
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Two aligned files, source and target (also .gz), or one table with two columns."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="A table: column of the source, by name or number.")] = None,
    target: Annotated[str | None, typer.Option(help="A table: column of the target.")] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(help="Validation: --valid SOURCES --valid TARGETS, or one table. [a twentieth is set aside]"),
    ] = None,
    model: Annotated[str | None, typer.Option(help="transformer or rnn. [transformer]")] = None,
    mechanism: o.Mechanism = None,
    positions: o.Positions = None,
    smoothing: Annotated[float | None, typer.Option(help="Label smoothing. [0.1]")] = None,
    bleu: Annotated[
        int | None,
        typer.Option(
            min=0, help="Evaluate by the BLEU of so many sentences, said greedily, letter case aside. [0: by the loss]"
        ),
    ] = None,
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
    batch_tokens: o.BatchTokens = None,
    accumulate: o.Accumulate = None,
    patience: o.Patience = None,
    average: o.Average = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="bpe, chars, words, or spaces for text cut into words already. [bpe]")
    ] = None,
    vocab: Annotated[int | None, typer.Option(min=7, help="Size of the vocabulary of both sides. [8000]")] = None,
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
    """Train a translator. Without --epochs, --steps or --budget it takes five epochs.

    \b
    transformer   attention throughout, with any mechanism and positions
    rnn           two recurrent nets with attention: --mechanism additive, bilinear or dot; --set model.input_feeding=true
                  lets what was attended enter the decoder's state

    \b
    Examples:
      regard train translate train.en train.de --valid val.en --valid val.de --epochs 2 --out runs/en-de
      regard train translate train.en train.de --model rnn --mechanism bilinear --epochs 2 --vocab 400
      regard train translate pairs.tsv --tokenizer spaces --smoothing 0 --epochs 2
      regard train translate --resume --out runs/en-de
    """
    said = locals()
    flags = {
        "seed": seed,
        "origin": from_,
        "smoothing": smoothing,
        "model": {"name": model, "mechanism": mechanism, "positions": positions},
        "data": {
            "train": data or None,
            "valid": valid or None,
            "source": source,
            "target": target,
            "bleu": bleu,
            "batch_tokens": batch_tokens,
        },
        "tokenizer": {"kind": tokenizer, "vocab": vocab},
        "train": o.training(said),
    }
    run("translate", flags, config, set_, import_, out, resume, overwrite, quiet, json_)


def pictured(data: str | None, resumed: Path | None) -> bool:
    """Whether classes are those of pictures: by what the data hold, or by the run that is resumed."""
    if data is None:
        import json

        file = None if resumed is None else resumed / "config.json"
        try:
            return file is not None and json.loads(file.read_text())["settings"]["task"] == "images"
        except (OSError, ValueError, KeyError, TypeError):
            return False  # `train` says what is wrong
    from regard.data.image_source import contains_images

    return contains_images(data)


def run(
    task: str,
    flags: dict[str, Any],
    config: Path | None,
    set_: list[str] | None,
    import_: list[Path] | None,
    out: Path | None,
    resume: bool,
    overwrite: bool,
    quiet: bool,
    json_: bool,
) -> None:
    """Train what the file, the options and the overrides say, each over the one before, and tell how it ended."""
    from regard.config.plugins import import_files
    from regard.tasks.train import train
    from regard.training.environment import rank
    from regard.training.interrupts import Interrupted

    import_files(import_)
    tree: dict[str, Any] = load(config) if config else {}
    if (named := tree.pop("task", task)) != task:
        raise UserError(f"{config} holds settings for the task {named!r}, not for {task!r}")
    flags["origin"] = None if flags["origin"] is None else str(flags["origin"])
    said = merge(o.given(flags), overrides(set_ or []))
    if any(length in said.get("train", {}) for length in LENGTHS):  # goes before the recipe's, whatever that counts
        tree["train"] = {key: value for key, value in (tree.get("train") or {}).items() if key not in LENGTHS}
    tree = merge(tree, said)
    configure("stderr" if json_ else "stdout", quiet=quiet)

    try:
        made = train(task, settings=tree, out=out, resume=resume, overwrite=overwrite, progress=not quiet)
    except Interrupted as stop:
        if rank() == 0:
            went = f"regard: stopped at step {stop.step}{f' of {stop.folder}' if stop.first else ''}; nothing is lost."
            again = " the same command" if stop.first else f"\n  regard train {task} --resume --out {stop.folder}"
            print(f"{went} Go on with{again}", file=sys.stderr)
        raise typer.Exit(128 + stop.signal) from None
    finish(made, json_)


def finish(run: Any, json_: bool) -> None:
    """Tell how it ended and what can be done next."""
    import json

    from regard.tasks.base import kind
    from regard.training.environment import rank

    if rank():
        return
    if json_:
        keys = ("metrics", "steps", "seconds", "parameters", "labels")
        print(json.dumps({"run": str(run.folder), **{k: run.config[k] for k in keys if k in run.config}}))
        return
    reached = "  ".join(f"{name} {value:.4f}" for name, value in run.metrics.items())
    logger.info(f"validation: {reached}")
    logger.info(f"try: {kind(run.settings.task).uses(run.config)[0].replace('FOLDER', str(run.folder))}")
