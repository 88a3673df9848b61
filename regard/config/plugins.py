"""Run a user's Python file. Only the command line (`--import FILE.py`) and `regard.import_file` do this; opening a run
never does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from regard.config.registry import USER_MODULE, register_module
from regard.errors import UserError


def import_file(path: str | Path) -> None:
    """Run a Python file and register the mechanisms, positions, models and tasks that it defines.

    Mechanisms, positions and tasks are found as subclasses of `Mechanism`, `PositionEncoding` and `Task` with a `name`;
    models are registered in the file by `@regard.register_model(TASK, NAME)`.

    Args:
        path: The file. It is run with the rights of this process.
    """
    file = Path(path).absolute()
    if not file.is_file():
        raise UserError(f"there is no Python file {str(path)!r} to import")
    spec = importlib.util.spec_from_file_location(f"{USER_MODULE}{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} could not be imported: {type(error).__name__}: {error}") from error
    register_module(module)


def import_files(paths: list[Path] | None) -> None:
    """Import each file of a command line."""
    for path in paths or []:
        import_file(path)
