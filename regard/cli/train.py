"""`regard train TASK`: one command for each task, with options derived from the settings of the task."""

from __future__ import annotations

import importlib
import json
import logging
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import regard.tasks
from regard.cli.common import Config, Imports, Json, Quiet, Set
from regard.cli.derived_options import add_options, make_option, settings_options
from regard.config.messages import configure
from regard.config.settings import LENGTH_SETTINGS, Settings, load_settings, merge_settings, nest_value, parse_overrides
from regard.errors import UserError

logger = logging.getLogger(__name__)

Out = Annotated[Path | None, typer.Option(help="Run folder. [runs/FILE-MODEL]", metavar="FOLDER")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")]

HELP = {
    "classify": """Train a text classifier.

    \b
    Examples:
      regard train classify reviews.csv --text review --label sentiment --model han --epochs 2 --out runs/han
      regard train classify reviews.csv --model transformer --mechanism dot --positions sinusoidal --steps 20
      regard train classify reviews.csv --from runs/bert --steps 20
      regard train classify --resume --out runs/han
    """,
    "language": """Train a language model.

    \b
    Objectives:
      causal   predict the next token                          --model gpt, ngram-gpt or cnn
      masked   predict masked tokens                           --model bert
      blank    predict each token from both sides of it        --model birnn
      span     predict a span that was removed                 --model gpt, ngram-gpt or cnn

    \b
    Examples:
      regard train language corpus.txt --epochs 2 --block-size 64 --out runs/gpt
      regard train language corpus.txt --objective masked --whole-words --epochs 2 --block-size 64 --out runs/bert
      regard train language corpus.txt books --objective blank --tokenizer words --epochs 2 --block-size 64
      regard train language reviews.csv:review --objective blank --tokenizer words --set model.cell=gru --epochs 2
      regard train language corpus.txt --tokenizer chars --model cnn --epochs 2 --block-size 64 --stride 32
      regard train language corpus.txt --from runs/gpt --epochs 2 --block-size 64
      regard train language --resume --out runs/gpt
    """,
    "translate": """Train a translator.

    \b
    Models:
      transformer   with any mechanism and positions
      rnn           recurrent encoder and decoder with attention: --mechanism additive, bilinear or dot

    \b
    Examples:
      regard train translate train.en train.de --valid val.en --valid val.de --epochs 2 --out runs/en-de
      regard train translate train.en train.de --model rnn --mechanism bilinear --epochs 2 --vocab-size 400
      regard train translate pairs.tsv --tokenizer spaces --label-smoothing 0 --epochs 2
      regard train translate --resume --out runs/en-de
    """,
    "recall": """Train a model that answers questions about people, after reading a sentence about each of them.

    A fifth of the people in the questions are held out; their answers are never used for training. Training takes 12
    epochs by default.

    \b
    Books:
      closed   answers from its weights; trained on paraphrases and questions   --model ngram-gpt or gpt
      open     finds the sentence by the name and points at the answer in it    --model pointer

    \b
    Examples:
      regard train recall facts.txt asked.tsv --book closed --epochs 1 --out runs/closed
      regard train recall facts.txt asked.tsv --book open --epochs 2 --out runs/open
      regard train recall facts.txt asked.tsv --model gpt --mechanism dot --steps 5
      regard train recall --resume --out runs/closed
    """,
    "caption": """Train an image captioner.

    An encoder turns the image into a grid of features, and each word attends to it. The encoder is a small
    convolutional network that is trained too, or a frozen timm model (--backbone). The data may also be features.

    \b
    Models:
      rnn           the decoder state attends: --mechanism bilinear, additive or dot
      transformer   with any mechanism and positions

    \b
    Examples:
      regard train caption train.zip train.captions.tsv --epochs 1 --out runs/scenes
      regard train caption train.zip train.captions.tsv --model transformer --steps 3 --set augment.zoom=0.8
      regard train caption train.zip train.captions.tsv --valid unseen.zip --valid unseen.captions.tsv --steps 3
      regard train caption features.npz train.captions.tsv --steps 3
      regard train caption --resume --out runs/scenes
    """,
    "images": """Train an image classifier with spatial self-attention.

    An encoder turns the image into a grid of features, whose cells attend to each other. `regard train classify` on a
    folder of images does the same.

    \b
    Examples:
      regard train images images --epochs 1 --out runs/images
      regard train images images --mechanism local-2d:window=2 --positions none --steps 3
      regard train images images --mechanism local-2d:window=2 --positions relative-2d --steps 3
      regard train images --resume --out runs/images
    """,
}
MASKED_OPTIONS = {
    "corruption.whole_words": "masked: mask all tokens of a word together.",
    "corruption.next_sentence": "masked: also predict whether two sentences follow each other.",
}


def build_train_group(tasks: list[str] | None = None) -> typer.Typer:
    """Build `regard train` with one command for each task.

    Args:
        tasks: Names of the tasks; all built-in ones by default.
    """
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    for task in built_in_tasks() if tasks is None else tasks:
        group.command(task, help=HELP.get(task))(build_train_command(task))
    return group


def built_in_tasks() -> list[str]:
    """Names of the built-in tasks, found without importing torch."""
    folders = {name for _, name, is_package in pkgutil.iter_modules(regard.tasks.__path__) if is_package}
    return [task for task in HELP if task in folders] + sorted(folders - HELP.keys())


def settings_class(task: str) -> type[Settings]:
    """The settings dataclass of a task. Built-in ones are imported without torch."""
    if task in built_in_tasks():
        module = importlib.import_module(f"regard.tasks.{task}.settings")
        return next(
            cls
            for cls in vars(module).values()
            if isinstance(cls, type) and issubclass(cls, Settings) and cls.__module__ == module.__name__
        )
    from regard.tasks.base import TASKS

    return TASKS.find(task)().settings_class


def build_train_command(task: str) -> Callable[..., None]:
    """Build the function of `regard train TASK`."""
    settings = settings_class(task)

    def train_command(
        out: Out = None,
        resume: Resume = False,
        overwrite: Overwrite = False,
        config: Config = None,
        set_: Set = None,
        import_: Imports = None,
        quiet: Quiet = False,
        json_: Json = False,
        **options: Any,
    ) -> None:
        from regard.config.plugins import import_files

        configure("stderr" if json_ else "stdout", quiet=quiet)
        import_files(import_)
        name = task
        if task == "classify" and _has_images(options.get("data.train"), out if resume else None):
            _check_image_options(options)
            name = "images"
        tree = collect_settings(name, config, options, set_)
        run_training(name, tree, out=out, resume=resume, overwrite=overwrite, progress=not quiet, json_=json_)

    train_command.__doc__ = settings.__doc__
    extra = [make_option(path, bool | None, text) for path, text in MASKED_OPTIONS.items() if task == "language"]
    return add_options(train_command, settings_options(settings) + extra)


def collect_settings(task: str, config: Path | None, options: dict[str, Any], set_: list[str] | None) -> dict[str, Any]:
    """Merge the recipe, the options and the `--set` values; later ones override earlier ones.

    Args:
        task: The task that is trained.
        config: The recipe.
        options: Setting -> value, such as {"train.lr": 0.01}.
        set_: Values of `--set`, such as ["model.hidden=100"].

    Returns:
        Nested mapping of settings.
    """
    tree: dict[str, Any] = load_settings(config) if config else {}
    recipe_task = tree.pop("task", task)
    if recipe_task != task:
        raise UserError(f"{config} has settings for the task {recipe_task!r}, not for {task!r}")
    given: dict[str, Any] = {}
    for path, value in options.items():
        given = merge_settings(given, nest_value(path.split("."), value))
    given = merge_settings(given, parse_overrides(set_ or []))
    if any(name in given.get("train", {}) for name in LENGTH_SETTINGS):  # overrides the recipe's length, in any unit
        tree["train"] = {key: value for key, value in (tree.get("train") or {}).items() if key not in LENGTH_SETTINGS}
    return merge_settings(tree, given)


def run_training(task: str, tree: dict[str, Any], *, json_: bool, **options: Any) -> None:
    """Train, and print the metrics and a command to try next."""
    from regard.tasks.train import train
    from regard.training.environment import get_rank
    from regard.training.interrupts import Interrupted

    try:
        run = train(task, settings=tree, **options)
    except Interrupted as stop:
        if get_rank() == 0:
            where = f" of {stop.folder}" if stop.in_warm_start else ""
            command = (
                "the same command" if stop.in_warm_start else f"\n  regard train {task} --resume --out {stop.folder}"
            )
            print(
                f"regard: stopped at step {stop.step}{where}; nothing is lost. Resume with {command}", file=sys.stderr
            )
        raise typer.Exit(128 + stop.signal) from None
    if get_rank() == 0:
        _print_result(run, json_)


def _print_result(run: Any, json_: bool) -> None:
    from regard.tasks.base import get_task

    if json_:
        keys = ("metrics", "steps", "seconds", "parameters", "labels")
        print(json.dumps({"run": str(run.folder), **{k: run.config[k] for k in keys if k in run.config}}))
        return
    metrics = "  ".join(f"{name} {value:.4f}" for name, value in run.metrics.items())
    command = get_task(run.settings.task).usage_commands(run.config)[0].replace("FOLDER", str(run.folder))
    logger.info(f"validation: {metrics}")
    logger.info(f"try: {command}")


def _has_images(data: str | None, resumed: Path | None) -> bool:
    """Whether `regard train classify` is about images: the data are images, or the resumed run is about images."""
    if data is not None:
        from regard.data.image_source import contains_images

        return contains_images(data)
    try:
        return resumed is not None and json.loads((resumed / "config.json").read_text())["settings"]["task"] == "images"
    except (OSError, ValueError, KeyError, TypeError):
        return False  # `train` reports what is wrong


def _check_image_options(options: dict[str, Any]) -> None:
    """Raise UserError if an option is for texts only."""
    known = {option.name.replace("__", ".") for option in settings_options(settings_class("images"))}
    wrong = [f"--{path.split('.')[-1].replace('_', '-')}" for path in options if path not in known]
    if wrong:
        raise UserError(f"{', '.join(wrong)} cannot be used with images: the folder contains images, not texts")
