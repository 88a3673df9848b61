"""`regard heads` and `regard prune`: which attention heads matter, and a model without the others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import Imports, Json, RunFolder, open_any
from regard.errors import UserError


def heads(
    run: RunFolder,
    files: Annotated[
        list[str],
        typer.Argument(
            help="Data like the training data (translators: two files); for imported models a text file.",
            metavar="FILE...",
        ),
    ],
    rows: Annotated[int, typer.Option(min=1, help="Texts to read; for a corpus, thousands of tokens.")] = 200,
    out: Annotated[Path | None, typer.Option(help="Also write the table, as .csv or .json.")] = None,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Measure how important each attention head is.

    Each head is ablated alone and the run is evaluated again. Each layer is also measured with all heads ablated, and
    with uniform attention. The most important heads are listed first.

    \b
    Examples:
      regard heads runs/han test.csv
      regard heads runs/gpt corpus.txt --rows 1 --json
    """
    from regard.tasks.head_table import measure_heads

    def on_progress(done: int, total: int) -> None:
        print(f"\r{done} of {total} ", end="\n" if done == total else "", file=sys.stderr, flush=True)

    model = open_any(run, import_)
    result = measure_heads(model, files, rows=rows, on_progress=on_progress if sys.stderr.isatty() else None)
    if out is not None:
        result.save(out)
    print(json.dumps(result.as_dict()) if json_ else result)


def prune(
    run: RunFolder,
    heads: Annotated[list[str], typer.Argument(help="LAYER:HEADS, such as layers.0:1,3.", metavar="LAYER:HEADS...")],
    out: Annotated[Path, typer.Option(help="Folder of the new run.")],
    import_: Imports = None,
) -> None:
    """Remove attention heads and write the smaller run.

    Its outputs equal those of the old run with the same heads ablated. For an imported model a Hugging Face folder is
    written.

    \b
    Example:
      regard prune runs/bert layers.0:1 --out runs/pruned
    """
    from regard.tasks.head_table import prune_run

    model = open_any(run, import_)
    if not hasattr(model, "save_pretrained"):
        raise UserError(f"{run} cannot be written without heads")
    print(f"run: {prune_run(model, heads).save_pretrained(out)}")
