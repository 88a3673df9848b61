"""From a block of text to ids, in numpy: the `tokenizers` library does the work, and only ids are asked of it."""

from __future__ import annotations

import array
from dataclasses import dataclass

import numpy as np

from regard.data import pieces
from regard.data.tokenizer import EOS, Tokenizer
from regard.errors import UserError

PIECE = 1 << 13  # bytes from one mark to the next, and of what the library is given at once


@dataclass(frozen=True)
class Encoded:
    """Ids of a block, with [EOS] after each document that ends there."""

    ids: np.ndarray
    documents: np.ndarray
    """Where documents begin."""
    marks: np.ndarray
    """Tokens, characters and bytes up to the end of each piece, counted from the start of the block."""


def kind_of(tokenizer: Tokenizer) -> np.dtype:
    """Two bytes an id where the vocabulary allows, four elsewhere; the same on every machine."""
    return np.dtype("<u2" if tokenizer.size <= 1 << 16 else "<u4")


def encode(tokenizer: Tokenizer, block: pieces.Block, documents: str) -> Encoded:
    """Tokenise a block. Text that is not UTF-8 is an error that names the file and the place."""
    found: list[tuple[int, bool]] = []  # bytes, and whether a document ends
    strings: list[str] = []
    for data, ended in pieces.texts(block, documents):
        parts = list(pieces.cut(data, PIECE))
        found += [(len(part), False) for part in parts[:-1]] + [(len(parts[-1]), ended)]
        try:
            strings += [part.decode() for part in parts]
        except UnicodeDecodeError:
            raise _not_utf8(block) from None
    ids: list[int] = []
    starts, marks = [0], [(0, 0, 0)]
    characters = size = 0
    encodings = tokenizer.core.encode_batch_fast(strings, add_special_tokens=False)
    for string, encoding, (bytes_, ended) in zip(strings, encodings, found, strict=True):
        ids += encoding.ids
        if ended:
            if len(ids) == starts[-1] or ids[-1] != EOS:  # where lines end with [EOS], the last one ends the document
                ids.append(EOS)
            starts.append(len(ids))
        characters, size = characters + len(string), size + bytes_
        if size - marks[-1][2] >= PIECE:
            marks.append((len(ids), characters, size))
    if marks[-1][0] != len(ids):
        marks.append((len(ids), characters, size))
    starts = [start for start in starts if start < len(ids) and (start or block.starts)]
    kind = kind_of(tokenizer)
    flat = np.frombuffer(array.array("H" if kind.itemsize == 2 else "I", ids), f"u{kind.itemsize}").astype(kind)
    return Encoded(flat, np.array(starts, np.int64), np.array(marks[1:], np.int64).reshape(-1, 3))


def _not_utf8(block: pieces.Block) -> UserError:
    try:
        block.data.decode()
    except UnicodeDecodeError as problem:
        if block.offset == 0 and block.data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return UserError(f"{block.file} is UTF-16, and UTF-8 is wanted; convert it: iconv -f utf-16 -t utf-8")
        unpacked = " of the unpacked text" if block.file.suffix.lower() == ".gz" else ""
        return UserError(
            f"{block.file} is not valid UTF-8: byte 0x{block.data[problem.start]:02x} at offset "
            f"{block.offset + problem.start}{unpacked}; convert it, for example: iconv -f latin1 -t utf-8"
        )
    raise AssertionError("a cut went through a character")
