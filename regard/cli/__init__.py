"""The command line. Each command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from regard import __version__
from regard.cli import (
    caption,
    compare,
    convert,
    cost,
    generate,
    images,
    lists,
    recall,
    serve,
    show,
    train,
    translate,
    use,
    verify,
)
from regard.config.messages import configure
from regard.errors import UserError

app = typer.Typer(
    name="regard",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    pretty_exceptions_enable=False,
)
train.app.command("images")(images.images)
app.add_typer(train.app, name="train")
app.command("compare")(compare.compare)
app.command("evaluate")(use.evaluate)
app.command("predict")(use.predict)
app.command("look")(show.look)
app.command("heads")(show.heads)
app.command("prune")(show.prune)
app.command("serve")(serve.serve)
app.command("generate")(generate.generate)
app.command("fill")(generate.fill)
app.command("translate")(translate.translate)
app.command("pairs")(translate.pairs)
app.command("ask")(recall.ask)
app.command("people")(recall.people)
app.command("caption")(caption.caption)
app.command("scenes")(caption.scenes)
app.command("list")(lists.list_)
app.command("cost")(cost.cost)
app.command("verify")(verify.verify)
app.command("import")(convert.import_)
app.command("export")(convert.export)
app.command("demo")(show.demo)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    """regard, the attention workbench: train any attention model on your own file, look inside, and know whether to
    believe what you see.

    \b
    Example:
      regard demo --out demo
    """
    configure("stderr")


def main() -> None:
    """Run a command; what the user can mend becomes one message and exit code 2, never a traceback."""
    try:
        app()
    except UserError as problem:
        _leave(f"regard: {problem}", 2)
    except OSError as problem:
        if os.environ.get("REGARD_DEBUG"):
            raise
        _leave(f"regard: {problem.strerror or problem}{f': {problem.filename}' if problem.filename else ''}", 2)


def _leave(message: str, code: int) -> None:
    sys.stdout.flush()
    print(message, file=sys.stderr)
    sys.exit(code)
