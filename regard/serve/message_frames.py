"""Messages between the server and the process of a model: four bytes of length, then JSON, which runs no code."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

LENGTH = struct.Struct(">I")


def pack_message(message: Any) -> bytes:
    """Encode a message."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    return LENGTH.pack(len(data)) + data


def read_message(stream: BinaryIO) -> Any | None:
    """Read the next message; None at the end."""
    header = _read_exactly(stream, LENGTH.size)
    if header is None:
        return None
    data = _read_exactly(stream, LENGTH.unpack(header)[0])
    return None if data is None else json.loads(data)


def _read_exactly(stream: BinaryIO, count: int) -> bytes | None:
    buffer = b""
    while len(buffer) < count:
        chunk = stream.read(count - len(buffer))
        if not chunk:
            return None
        buffer += chunk
    return buffer
