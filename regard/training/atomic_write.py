"""Atomic file writes: into a temporary file, synced to disk, renamed. And a clear error if the disk is full."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from regard.errors import UserError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_synced(path: Path, content: bytes) -> dict[str, int | str]:
    """Write a file and sync it to disk. Returns its size and sha256. Not atomic: see `replace_file`."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: at each moment the old or the new one is there, complete."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with explain_full_disk(path.parent, len(content)):
            write_synced(temporary, content)
            os.replace(temporary, path)
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk, if the system can (Windows cannot)."""
    with contextlib.suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def explain_full_disk(folder: Path, needed: int) -> Iterator[None]:
    """Convert the error of a full disk to a `UserError`."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in _DISK_FULL:
            raise
        raise UserError(
            f"no space left on disk: {folder} needs {needed / 1e6:.1f} MB and {_describe_free_space(folder)}; "
            "files written before are intact: free some space and continue with --resume"
        ) from None


def _describe_free_space(folder: Path) -> str:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return f"{shutil.disk_usage(folder).free / 1e6:.1f} MB are free"
    except OSError:
        return "there is less"
