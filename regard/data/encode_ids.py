"""From a block of text to ids in numpy. The `tokenizers` library does the work, and only ids are asked of it; single
characters, which it finds at a megabyte a second, are looked up in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data import chunks
from regard.data.tokenizer import EOS, UNK, Tokenizer
from regard.errors import UserError

PIECE_BYTES = 1 << 13  # bytes of what the library is given at once, and from one mark to the next


@dataclass(frozen=True)
class EncodedBlock:
    """Ids of a block, with [EOS] after each document that ends there."""

    ids: np.ndarray
    documents: np.ndarray
    """Where documents begin."""
    marks: np.ndarray
    """Tokens, characters and bytes up to the end of each piece or so, counted from the start of the block."""


class BlockEncoder:
    """Encodes blocks; may be called by several threads."""

    def __init__(self, tokenizer: Tokenizer, documents: str) -> None:
        self.documents = chunks.check_documents(documents)
        # Two bytes an id where the vocabulary allows, and the same order of bytes on every machine.
        self._kind = np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<u4")
        self._ids = _characters(tokenizer, self._kind) if tokenizer.kind == "chars" else _library(tokenizer, self._kind)
        self._end = np.array([EOS], self._kind)

    def __call__(self, block: chunks.TextBlock) -> EncodedBlock:
        """Tokenise a block. Text that is not UTF-8 is an error that names the file and the place."""
        sizes: list[tuple[int, bool]] = []  # bytes of each piece, and whether a document ends with it
        strings: list[str] = []
        for data, ended in chunks.split_documents(block, self.documents):
            parts = list(chunks.split_text(data, PIECE_BYTES))
            sizes += [(len(part), False) for part in parts[:-1]] + [(len(parts[-1]), ended)]
            try:
                strings += [part.decode() for part in parts]
            except UnicodeDecodeError:
                raise _not_utf8(block) from None
        ids: list[np.ndarray] = []
        starts, marks = [0], [(0, 0, 0)]
        tokens = characters = bytes_ = 0
        for string, found, (size, ended) in zip(strings, self._ids(strings), sizes, strict=True):
            ids.append(found)
            tokens, characters, bytes_ = tokens + len(found), characters + len(string), bytes_ + size
            if ended:
                if not len(found) or found[-1] != EOS:  # where lines end with [EOS], the last one ends the document
                    ids.append(self._end)
                    tokens += 1
                starts.append(tokens)
            if bytes_ - marks[-1][2] >= PIECE_BYTES:
                marks.append((tokens, characters, bytes_))
        if marks[-1] != (tokens, characters, bytes_):
            marks.append((tokens, characters, bytes_))
        starts = [start for start in starts if start < tokens and (start or block.starts)]
        flat = np.concatenate([*ids, np.empty(0, self._kind)])
        return EncodedBlock(flat, np.array(starts, np.int64), np.array(marks[1:], np.int64).reshape(-1, 3))


def _library(tokenizer: Tokenizer, kind: np.dtype) -> Callable[[Sequence[str]], list[np.ndarray]]:
    def ids(strings: Sequence[str]) -> list[np.ndarray]:
        found = tokenizer.core.encode_batch_fast(list(strings), add_special_tokens=False)  # without offsets
        return [np.fromiter(encoding.ids, kind, len(encoding)) for encoding in found]

    return ids


def _characters(tokenizer: Tokenizer, kind: np.dtype) -> Callable[[Sequence[str]], list[np.ndarray]]:
    table = np.full(0x110000, UNK, kind)
    for token, id in tokenizer.core.get_vocab().items():
        if len(token) == 1:
            table[ord(token)] = id

    def ids(strings: Sequence[str]) -> list[np.ndarray]:
        return [table[np.frombuffer(string.encode("utf-32-le"), "<u4")] for string in strings]

    return ids


def _not_utf8(block: chunks.TextBlock) -> UserError:
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
