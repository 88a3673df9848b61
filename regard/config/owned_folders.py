"""Folders that regard created. Nothing is removed or replaced in a folder that regard did not create.

Each such folder contains a marker file, which is written first. A folder with files and without the marker belongs to
the user: writing into it, or removing from it, is refused.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError

MARKER = ".regard.json"
LOCK = ".regard.lock"


def claim_folder(folder: Path, kind: str) -> None:
    """Create a folder and mark it as one that regard wrote, or check that it is one already.

    Args:
        folder: A new folder, an empty one, one that was claimed before, or a folder directly inside such a one.
        kind: What it holds, such as "run", "comparison" or "corpus".

    Raises:
        UserError: The folder has files and was not created by regard, or holds something else.
    """
    if owned_kind(folder) == kind:
        return
    check_claimable(folder, kind)
    marker, content = folder / MARKER, json.dumps({"kind": kind, "id": secrets.token_hex(8)}) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(marker, "x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:  # another process claims the folder too, or was killed while it did
        if owned_kind(folder) is None:
            marker.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot create the folder {folder}: {error.strerror or error}") from None


def check_claimable(folder: Path, kind: str) -> None:
    """Raise UserError if `claim_folder` would refuse the folder."""
    if folder.is_file():
        raise UserError(f"cannot create the folder {folder} for a {kind}: a file has that name")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    owner = owned_kind(folder)  # after the names: another process writes its marker before its other files
    if owner is not None and owner != kind:
        raise UserError(f"{folder} holds a {owner}, not a {kind}; choose another folder")
    if owner is None and owned_kind(folder.parent) is None and names - {MARKER, LOCK}:
        raise UserError(f"{folder} is not empty and is not a {kind} of regard; choose another folder")


def owned_kind(folder: Path) -> str | None:
    """Return what regard stores in the folder, or None if regard did not create it."""
    try:
        kind = json.loads((folder / MARKER).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kind if isinstance(kind, str) else None


def remove_files(folder: Path, patterns: Sequence[str]) -> None:
    """Remove the files that match a pattern, and then subfolders that are empty. All other files stay.

    Args:
        folder: A folder that regard created; the caller has checked it.
        patterns: Patterns of paths relative to the folder, such as "state/step-*/*.safetensors". `*` does not match
            a slash. Symbolic links are neither followed nor removed.
    """
    folders = []
    for path in sorted(folder.rglob("*"), reverse=True):  # contents before their folder
        if path.is_symlink():
            continue
        if path.is_dir():
            folders.append(path)
        elif any(_matches(path.relative_to(folder).parts, pattern.split("/")) for pattern in patterns):
            path.unlink(missing_ok=True)
    top_names = {pattern.split("/")[0] for pattern in patterns if "/" in pattern}
    for path in folders:
        if path.relative_to(folder).parts[0] in top_names:
            with contextlib.suppress(OSError):  # not empty: it holds a file of the user
                path.rmdir()


def check_inputs_outside(folder: Path, inputs: Iterable[Any]) -> None:
    """Raise UserError if an input file is inside a folder whose files will be removed.

    Args:
        folder: The folder.
        inputs: Paths; None and "" are ignored.
    """
    root = folder.resolve()
    for path in inputs:
        if path and Path(path).resolve().is_relative_to(root):
            raise UserError(
                f"the input {path} is inside {folder}, which would be cleared; move it, or use another --out"
            )


@contextlib.contextmanager
def lock_output(folder: Path) -> Iterator[None]:
    """Let one process at a time write to a folder that was claimed. The lock disappears with its process.

    Raises:
        UserError: Another process is writing to the folder.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / LOCK, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise UserError(
                f"another process is writing to {folder} ({owner}); wait until it ends, or use another folder for --out"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def _matches(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    return len(parts) == len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))
