"""`regard import` and `regard export`: Hugging Face folders in and out, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[Path, typer.Argument(help="A local Hugging Face folder: config.json and model.safetensors.")],
    out: Annotated[Path, typer.Option(help="The regard folder to write.")],
) -> None:
    """Turn a Hugging Face model (BERT, GPT-2, Marian, T5) into a regard model. Nothing is downloaded or executed.

    \b
    Example:
      regard import hf-bert --out runs/bert
    """
    from regard.hub.imported_folder import save

    print(save(folder, out))


def export(
    run: Annotated[Path, typer.Argument(help="A folder that `regard import` wrote.")],
    out: Annotated[Path, typer.Option(help="The Hugging Face folder to write.")],
) -> None:
    """Turn an imported model back into a Hugging Face folder, with the same weights.

    \b
    Example:
      regard export runs/bert --out hf-again
    """
    from regard.hub.imported_folder import export

    print(export(run, out))
