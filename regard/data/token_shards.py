"""Shards of tokens: safetensors files, written atomically and read through a memory map."""

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

_DTYPES = {"U16": "<u2", "U32": "<u4", "I64": "<i8"}


def write_shard(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write arrays and metadata. Metadata is one JSON entry, because the library orders several entries at random."""
    replace_file(path, safetensors.numpy.save(dict(arrays), {"about": json.dumps(metadata)}))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: it exists complete or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"disk full: {path.parent} needs {len(content) / 1e6:.1f} MB more; free some space and run the same "
                "command again: it resumes from the shards that are complete"
            ) from None
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


class BrokenShard(UserError):
    """Raised when a file is not a complete shard."""


class Shard:
    """A stored shard, memory-mapped.

    Attributes:
        metadata: The metadata passed to `write_shard`.
        arrays: The arrays by name.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open(path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            data_start = 8 + int.from_bytes(self._map[:8], "little")
            header = json.loads(self._map[8:data_start])
            self.metadata: dict[str, Any] = json.loads(header.pop("__metadata__")["about"])
            self.arrays = {name: self._map_array(data_start, entry) for name, entry in header.items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BrokenShard(
                f"{path} is not a complete shard of tokens ({error}); delete it and start again"
            ) from None

    def _map_array(self, data_start: int, entry: dict[str, Any]) -> np.ndarray:
        start, stop = entry["data_offsets"]
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        array = np.frombuffer(self._map, dtype, (stop - start) // dtype.itemsize, data_start + start)
        return array.reshape(entry["shape"])

    def release_pages(self) -> None:
        """Release the pages that were read. They stay in the cache of the system, not in this process."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
