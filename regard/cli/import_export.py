"""`regard import` and `regard export`: convert local Hugging Face folders to regard models and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_model(
    folder: Annotated[Path, typer.Argument(help="Local Hugging Face folder with config.json and model.safetensors.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
) -> None:
    """Convert a Hugging Face model to a regard model.

    Supported are BERT, GPT-2, Marian and T5. Nothing is downloaded, and no code of the folder is executed.

    \b
    Example:
      regard import hf-bert --out runs/bert
    """
    from regard.hub.imported_folder import import_folder

    print(import_folder(folder, out))


def export_model(
    run: Annotated[Path, typer.Argument(help="Folder that `regard import` wrote.")],
    out: Annotated[Path, typer.Option(help="Hugging Face folder to write.")],
) -> None:
    """Convert an imported model back to a Hugging Face folder.

    The weights are the same, bit for bit.

    \b
    Example:
      regard export runs/bert --out hf-again
    """
    from regard.hub.imported_folder import export_folder

    print(export_folder(run, out))
