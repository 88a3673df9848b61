"""Choose and check the folder that a new run is written to."""

from __future__ import annotations

import os
import re
from pathlib import Path

from regard.config.owned_folders import MARKER, check_inputs_outside, lock_output, owned_kind, remove_files
from regard.config.settings import Settings
from regard.errors import UserError
from regard.tasks.run_dir import read_config
from regard.training import environment

CORPUS_FILES = ("corpus.json", "corpus.json.*", "shard-*.safetensors", "shard-*.tmp", ".lock", MARKER)
RUN_FILES = (
    *("config.json", "config.json.tmp", "model.safetensors", "model.safetensors.tmp", "README.md", "README.md.tmp"),
    *("tokenizer.json", "tokenizer.json.tmp", "metrics.jsonl", "logs/events.out.tfevents.*"),
    *("state/step-*/*.safetensors", "state/step-*/state.json", "state/step-*/manifest.json"),
    *(f"corpus/{name}" for name in CORPUS_FILES),
    *(f"corpus/valid/{name}" for name in CORPUS_FILES),
    *("corpus/book.json", "corpus/calibration.json"),
)
"""What a run writes: `--overwrite` removes these files and no others."""
FOLDER_VARIABLE = "REGARD_RUN_FOLDER"
"""Environment variable with the folder, for the processes that the first process starts."""


def choose_output_folder(settings: Settings, out: str | Path | None, overwrite: bool) -> Path:
    """The folder `out`, emptied if it holds a run to overwrite; or without `out` the next free folder in runs/."""
    if out is None:
        return _next_free_folder(settings)
    folder = Path(out)
    # only the first process checks: it may be writing already when the others start
    if not environment.get_rank() and check_output_folder(folder, overwrite):
        data = settings.data
        files = [data.train] if isinstance(data.train, str) else data.train
        check_inputs_outside(folder, (*files, data.valid, settings.warm_start))
        with lock_output(folder):
            remove_files(folder, RUN_FILES)
    return folder


def check_output_folder(folder: Path, overwrite: bool) -> bool:
    """Raise UserError if a new run cannot be written to the folder.

    Returns:
        Whether it holds a run, which is to be overwritten.
    """
    if folder.is_file():
        raise UserError(f"{folder} is a file; --out must be a folder")
    owned = owned_kind(folder) == "run"
    if (folder / "config.json").exists():
        try:
            read_config(folder)
        except UserError as error:
            raise UserError(f"{error}; or use another folder for --out") from None
        if not overwrite:
            raise UserError(f"{folder} already holds a run: use --resume to continue it or --overwrite to replace it")
        if not owned:
            raise UserError(
                f"{folder} was not written by `regard train` here, so it is not overwritten; remove it first"
            )
        return True
    if not owned and folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty and not a run; use another folder for --out")
    return owned  # of a run that was killed before its first checkpoint


def _next_free_folder(settings: Settings) -> Path:
    if environment.get_rank() or environment.is_torchrun_worker():
        if FOLDER_VARIABLE not in os.environ:
            raise UserError("several processes must write to the same run folder: name it with --out")
        return Path(os.environ.pop(FOLDER_VARIABLE))
    train = settings.data.train
    file = train if isinstance(train, str) else next(iter(train), "")
    stem = re.sub(r"[^\w-]+", "-", Path(file or "table").name.split(".")[0]).strip("-") or "data"
    number, folder = 1, Path("runs") / f"{stem}-{settings.model_name}"
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{stem}-{settings.model_name}-{number}"
    os.environ[FOLDER_VARIABLE] = str(folder)
    return folder
