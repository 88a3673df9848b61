"""Files that are whole or not there: written beside, forced to disk, renamed. And what to say when the disk is full."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from regard.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_synced(path: Path, content: bytes) -> dict[str, int | str]:
    """Write and force to disk; size and sha256 of what was written. Not atomic by itself: see `replace`."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in the place of another so that at each moment one of the two is there, whole."""
    beside = path.with_name(path.name + ".tmp")
    try:
        with explain_full_disk(path.parent, len(content)):
            write_synced(beside, content)
            os.replace(beside, path)
            sync_folder(path.parent)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk, where the system can (Windows cannot)."""
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
    """Turn a full disk into an error that the user can mend."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in _FULL:
            raise
        raise UserError(
            f"no room on disk: {folder} needs {needed / 1e6:.1f} MB and {_free(folder)}; "
            "what was written before is whole: make room and go on with --resume"
        ) from None


def _free(folder: Path) -> str:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return f"{shutil.disk_usage(folder).free / 1e6:.1f} MB are free"
    except OSError:
        return "there is less"
