"""Arguments and checks that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UserError

RunFolder = Annotated[Path, typer.Argument(help="Run folder.", metavar="RUN")]
Config = Annotated[Path | None, typer.Option(help="Recipe: a YAML or JSON file of settings.", metavar="FILE")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting: model.hidden=100.")]
Imports = Annotated[
    list[Path] | None,
    typer.Option("--import", metavar="FILE.py", help="Your own mechanisms, models or tasks; the file is run."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON; messages go to standard error.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed. The same seed gives the same output.")]


def open_run(folder: Path, imports: list[Path] | None, verb: str) -> Any:
    """Open a run folder. Raises UserError if runs of its task cannot do `verb`, such as "generate"."""
    from regard.config.plugins import import_files
    from regard.tasks.base_run import Run

    import_files(imports)
    run = Run.load(folder)
    if verb not in run.verbs:
        objective = getattr(run, "objective", None)
        task = f"{run.settings.task!r}" + (f" with the objective {objective!r}" if objective else "")
        raise UserError(f"{folder} is a run of {task}, which cannot {verb}; it can {', '.join(run.verbs)}")
    return run


def open_any(folder: Path, imports: list[Path] | None) -> Any:
    """Open a run, a checkpoint, an imported model or a Hugging Face folder for inspection."""
    from regard.config.plugins import import_files
    from regard.hub.load_any import load_any

    import_files(imports)
    model = load_any(folder)
    if "look" not in model.verbs:
        raise UserError(f"{folder} cannot look; it can {', '.join(model.verbs)}")
    return model


def takes_images(run: Any) -> bool:
    """Whether the input of this run is an image file, not a text."""
    return getattr(getattr(run, "settings", None), "task", None) in ("images", "caption")


def check_utf8(text: str) -> str:
    """Return the text. Raises UserError if the command line passed bytes that are not UTF-8."""
    if text.encode("utf-8", "replace").decode() != text:
        raise UserError("the text is not valid UTF-8; set the terminal to UTF-8, or put the text into a file")
    return text


def check_text(text: str) -> str:
    """Return the text. Raises UserError if it is empty or not UTF-8."""
    if not check_utf8(text).strip():
        raise UserError("the text is empty")
    return text


def check_not_a_file(text: str, fix: str = "use --file") -> None:
    """Raise UserError if the text is the name of a file or, with a slash in it, of a folder."""
    if os.path.isfile(text) or ("/" in text and os.path.isdir(text)):
        kind = "file" if os.path.isfile(text) else "folder"
        raise UserError(f"{text} is a {kind}; its name was not read as a text: {fix}")


def progress_counter(unit: str) -> Callable[[int], None] | None:
    """A callback that counts what is done on the terminal; None if standard error is not a terminal."""
    total = 0

    def on_progress(count: int) -> None:
        nonlocal total
        total += count
        print(f"\r{total:,} {unit} ", end="\r", file=sys.stderr, flush=True)

    return on_progress if sys.stderr.isatty() else None


def show_measuring_progress() -> None:
    """Show on the terminal how many of the forward passes of a faithfulness measurement are done."""
    if sys.stderr.isatty():
        from regard.explain.explainer import progress

        progress.set(lambda done, of: print(f"\rmeasured {done} of {of} ", end="\r", file=sys.stderr, flush=True))
