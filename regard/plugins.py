"""The one door for code of the user's own: `--import path.py`. Opening a run never comes through here."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from regard.errors import UserError


def import_files(paths: Iterable[Path]) -> None:
    """Run the files and make known the mechanisms that they define."""
    for path in paths:
        if not path.is_file():
            raise UserError(f"--import wants a Python file; there is none at {str(path)!r}")
        spec = importlib.util.spec_from_file_location(f"regard_user_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise UserError(f"--import wants a Python file, and was given {str(path)!r}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as problem:
            raise UserError(f"{path} could not be imported: {type(problem).__name__}: {problem}") from problem
        _register(module, path)


def _register(module: ModuleType, path: Path) -> None:
    from regard.attention.mechanisms import Mechanism, register

    own = [cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == module.__name__]
    found = [cls for cls in own if issubclass(cls, Mechanism) and "name" in vars(cls)]
    if not found:
        raise UserError(
            f"{path} defines no mechanism: no subclass of regard.attention.mechanisms.Mechanism with a name"
        )
    for cls in found:
        register(cls)
