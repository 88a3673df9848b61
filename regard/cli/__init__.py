"""The command line. Each command imports what it needs when it runs, so that `regard --help` is fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from regard import __version__
from regard.cli import data
from regard.cli.ask import ask
from regard.cli.caption import caption
from regard.cli.compare import build_compare_command
from regard.cli.cost import cost
from regard.cli.demo import demo
from regard.cli.evaluate import build_evaluate_command
from regard.cli.fill import fill
from regard.cli.generate import generate
from regard.cli.heads import heads, prune
from regard.cli.import_export import export_model, import_model
from regard.cli.list_models import list_components
from regard.cli.look import build_look_command
from regard.cli.predict import build_predict_command
from regard.cli.serve import serve
from regard.cli.train import build_train_group, built_in_tasks
from regard.cli.translate import translate
from regard.cli.verify import verify
from regard.config.messages import configure
from regard.errors import UserError

TRAIN_AND_USE, COMPARE, INSPECT = "Train and use", "Compare", "Inspect"
THEORY, DATA, MODELS = "Theory", "Data", "Models in and out"

COMMANDS: dict[str, tuple[str, Callable[..., Any]]] = {
    "predict": (TRAIN_AND_USE, build_predict_command),
    "evaluate": (TRAIN_AND_USE, build_evaluate_command),
    "generate": (TRAIN_AND_USE, generate),
    "fill": (TRAIN_AND_USE, fill),
    "translate": (TRAIN_AND_USE, translate),
    "ask": (TRAIN_AND_USE, ask),
    "caption": (TRAIN_AND_USE, caption),
    "serve": (TRAIN_AND_USE, serve),
    "demo": (TRAIN_AND_USE, demo),
    "compare": (COMPARE, build_compare_command),
    "look": (INSPECT, build_look_command),
    "heads": (INSPECT, heads),
    "prune": (INSPECT, prune),
    "cost": (THEORY, cost),
    "verify": (THEORY, verify),
    "list": (MODELS, list_components),
    "import": (MODELS, import_model),
    "export": (MODELS, export_model),
}
"""Command -> heading in the help, and its function. A function `build_..._command` returns the command for given
arguments, because its options depend on the task."""


class CommandGroup(TyperGroup):
    """Lists the commands under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = sorted(self.commands.items(), key=lambda item: item[0] != "train")
        width = formatter.width - 6 - max(len(name) for name, _ in commands)
        for heading in (TRAIN_AND_USE, COMPARE, INSPECT, THEORY, DATA, MODELS):
            rows = [
                (name, command.get_short_help_str(width))
                for name, command in commands
                if getattr(command, "rich_help_panel", None) == heading
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)


def build_app(arguments: Sequence[str] | None = None) -> typer.Typer:
    """Build the command line.

    Args:
        arguments: Words of the command line. They decide which options the commands have: those of the run's task.
            None builds all commands, with the options that all tasks have.
    """
    words = list(arguments or ())
    app = typer.Typer(
        name="regard",
        cls=CommandGroup,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        pretty_exceptions_enable=False,
    )
    app.callback()(root)
    # Only the command that runs gets its options, because Typer takes long to read them.
    used = [*COMMANDS, "train", "data"] if arguments is None else [w for w in words if not w.startswith("-")][:1]
    train = build_train_group(_train_tasks(words)) if "train" in used else typer.Typer()
    app.add_typer(train, name="train", help="Train a model on your own data.", rich_help_panel=TRAIN_AND_USE)
    for name, (heading, function) in COMMANDS.items():
        if function.__name__.startswith("build_"):
            function = function(words[1:] if words[:1] == [name] else ())
        app.command(name, rich_help_panel=heading, help=function.__doc__)(function if name in used else _no_options)
    generators = data.app if "data" in used else typer.Typer()
    app.add_typer(generators, name="data", help="Generate synthetic datasets.", rich_help_panel=DATA)
    return app


def _no_options() -> None:
    """Stand for a command that is listed in the help and does not run."""


def _train_tasks(words: Sequence[str]) -> list[str]:
    """Names of the tasks that `regard train` has: the built-in ones and those of `--import` files."""
    files = [Path(file) for option, file in pairwise(words) if option == "--import"]
    if not files:
        return built_in_tasks()
    from regard.config.plugins import import_files
    from regard.tasks.base import TASKS

    import_files(files)
    return [*built_in_tasks(), *(task for task in TASKS if task not in built_in_tasks())]


def _print_version(requested: bool) -> None:
    if requested:
        print(f"regard {__version__}")
        raise typer.Exit()


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """regard, the attention workbench: train attention models on your own data, look inside them, and measure how
    faithful what you see is.

    \b
    Example:
      regard demo --out demo
    """


def main() -> None:
    """Run a command. An error that the user can fix is printed as one message, with exit code 2 and no traceback."""
    configure("stderr")
    try:
        build_app(sys.argv[1:])()
    except UserError as error:
        _exit_with(f"regard: {error}", 2)
    except OSError as error:
        if os.environ.get("REGARD_DEBUG"):
            raise
        where = f": {error.filename}" if error.filename else ""
        _exit_with(f"regard: {error.strerror or error}{where}", 2)


def _exit_with(message: str, code: int) -> None:
    sys.stdout.flush()
    print(message, file=sys.stderr)
    sys.exit(code)
