"""A SentencePiece file (source.spm of a Marian folder) as a tokenizer of the `tokenizers` library.

The file is a protocol buffer: field 1 repeats the pieces {1: text, 2: score, 3: kind}, field 2 has the training options
{3: 1 for unigram}, field 3 the text normalization {2: the precompiled table}. The other fields are not needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers as tk
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from regard.errors import UserError

UNKNOWN_KIND = 2
"""The kind of the piece that stands for unknown text."""


def load_unigram(file: Path) -> tk.Tokenizer:
    """Load a unigram SentencePiece model."""
    pieces: list[tuple[str, float]] = []
    unknown_id, normalization = None, b""
    try:
        for field, value in read_fields(file.read_bytes()):
            if field == 1:
                piece = dict(read_fields(value))
                if piece.get(3, 1) == UNKNOWN_KIND:
                    unknown_id = len(pieces)
                pieces.append((piece[1].decode("utf-8"), struct.unpack("<f", piece.get(2, bytes(4)))[0]))
            elif field == 2 and dict(read_fields(value)).get(3, 1) != 1:
                raise UserError(f"{file} is not a unigram SentencePiece model; other kinds are not supported")
            elif field == 3:
                normalization = dict(read_fields(value)).get(2, b"")
    except (IndexError, KeyError, ValueError, TypeError, struct.error, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{file} is not a SentencePiece model, or is truncated") from None
    if not pieces:
        raise UserError(f"{file} is not a SentencePiece model: it has no pieces")
    core = tk.Tokenizer(models.Unigram(pieces, unk_id=unknown_id))
    steps: list[Any] = [normalizers.Precompiled(normalization)] if normalization else []
    core.normalizer = normalizers.Sequence([*steps, normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    core.decoder = decoders.Metaspace(prepend_scheme="always")
    return core


def read_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol buffer message: integers, or the bytes of texts, floats and nested messages."""
    offset = 0
    while offset < len(data):
        key, offset = _read_varint(data, offset)
        wire_type = key & 7
        if wire_type == 0:
            value, offset = _read_varint(data, offset)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
            value, offset = data[offset : offset + size], offset + size
        elif wire_type == 2:
            size, offset = _read_varint(data, offset)
            if offset + size > len(data):
                raise ValueError("truncated")
            value, offset = data[offset : offset + size], offset + size
        else:
            raise ValueError(f"unknown wire type {wire_type}")
        yield key >> 3, value


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """An integer with seven bits per byte, the lowest first, and the offset after it."""
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset
