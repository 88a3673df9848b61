"""Shards: a stretch of tokens in one safetensors file, written whole or not at all, and read through a memory map."""

from __future__ import annotations

import errno
import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from regard.errors import UserError

_KINDS = {"U16": "<u2", "U32": "<u4", "I64": "<i8"}


def write_shard(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write arrays with what is to be known about them, in one entry: the library's own order of several is random."""
    replace_file(path, safetensors.numpy.save(dict(arrays), {"about": json.dumps(about)}))


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in its place so that it is there whole or not at all."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"no room on disk: {path.parent} needs {len(content) / 1e6:.1f} MB more; "
                "what was tokenised before is whole: make room and start again, and it goes on from there"
            ) from None
        raise UserError(f"cannot write {path}: {problem.strerror or problem}") from None
    finally:
        beside.unlink(missing_ok=True)


class BrokenShard(UserError):
    """A file that is no whole shard."""


class Shard:
    """A shard that is there, mapped and not read."""

    def __init__(self, path: Path) -> None:
        try:
            with open(path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            begin = 8 + int.from_bytes(self._map[:8], "little")
            header = json.loads(self._map[8:begin])
            self.about: dict[str, Any] = json.loads(header.pop("__metadata__")["about"])
            self.arrays = {name: self._array(begin, entry) for name, entry in header.items()}
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise BrokenShard(f"{path} is not a whole shard of tokens ({problem}); delete it and start again") from None

    def _array(self, begin: int, entry: dict[str, Any]) -> np.ndarray:
        start, stop = entry["data_offsets"]
        kind = np.dtype(_KINDS[entry["dtype"]])
        array = np.frombuffer(self._map, kind, (stop - start) // kind.itemsize, begin + start)
        return array.reshape(entry["shape"])

    def forget(self) -> None:
        """Let go of the pages that were read. They stay in the system's cache, not in this process."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
