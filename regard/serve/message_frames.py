"""Messages between the server and a model's process: four bytes of length, then JSON, which runs no code."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

LENGTH = struct.Struct(">I")


def pack(message: Any) -> bytes:
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    return LENGTH.pack(len(data)) + data


def read(stream: BinaryIO) -> Any | None:
    """The next message, or None at the end."""
    head = _exactly(stream, LENGTH.size)
    if head is None:
        return None
    data = _exactly(stream, LENGTH.unpack(head)[0])
    return None if data is None else json.loads(data)


def _exactly(stream: BinaryIO, count: int) -> bytes | None:
    parts = b""
    while len(parts) < count:
        part = stream.read(count - len(parts))
        if not part:
            return None
        parts += part
    return parts
