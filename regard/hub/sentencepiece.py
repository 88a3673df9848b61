"""A SentencePiece file (source.spm of a Marian folder) as a tokenizer of the `tokenizers` library.

The file is a protocol buffer: field 1 repeats the pieces {1: text, 2: score, 3: kind}, field 2 says how it was trained
{3: 1 for unigram}, field 3 how text is normalised {2: the precompiled table}. Nothing else of it is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers as tk
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from regard.errors import UserError

UNKNOWN = 2  # the kind of piece that stands for what is not known


def unigram(file: Path) -> tk.Tokenizer:
    """Text to pieces, as SentencePiece cuts it."""
    pieces: list[tuple[str, float]] = []
    unknown, table = None, b""
    try:
        for field, value in fields(file.read_bytes()):
            if field == 1:
                part = dict(fields(value))
                if part.get(3, 1) == UNKNOWN:
                    unknown = len(pieces)
                pieces.append((part[1].decode("utf-8"), struct.unpack("<f", part.get(2, bytes(4)))[0]))
            elif field == 2 and dict(fields(value)).get(3, 1) != 1:
                raise UserError(f"{file} is a SentencePiece model of another kind than unigram, which cannot be read")
            elif field == 3:
                table = dict(fields(value)).get(2, b"")
    except (IndexError, KeyError, ValueError, TypeError, struct.error, AttributeError) as problem:
        if isinstance(problem, UserError):
            raise
        raise UserError(f"{file} is not a SentencePiece model, or is cut short") from None
    if not pieces:
        raise UserError(f"{file} is not a SentencePiece model: it holds no pieces")
    core = tk.Tokenizer(models.Unigram(pieces, unk_id=unknown))
    steps: list[Any] = [normalizers.Precompiled(table)] if table else []
    core.normalizer = normalizers.Sequence([*steps, normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    core.decoder = decoders.Metaspace(prepend_scheme="always")
    return core


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, or the bytes of texts, floats and messages inside."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _number(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        elif kind == 2:
            size, at = _number(data, at)
            if at + size > len(data):
                raise ValueError("cut short")
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"no field is of kind {kind}")
        yield key >> 3, value


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
