"""Encode a block of text as token ids in numpy.

The `tokenizers` library does the work, and is asked for ids only. Single characters, for which the library manages only
a megabyte per second, are looked up in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data import chunks
from regard.data.tokenizer import EOS, UNK, Tokenizer
from regard.errors import UserError

PIECE_BYTES = 1 << 13  # bytes passed to the library in one string, and between two rows of `EncodedBlock.sizes`


@dataclass(frozen=True)
class EncodedBlock:
    """Token ids of a block of text.

    Attributes:
        ids: Token ids, with [EOS] after each document that ends in the block.
        documents: First token of each document that starts in the block.
        sizes: (pieces, 3): tokens, characters and bytes from the start of the block to the end of each piece.
    """

    ids: np.ndarray
    documents: np.ndarray
    sizes: np.ndarray


class BlockEncoder:
    """Encodes blocks. Several threads may call it."""

    def __init__(self, tokenizer: Tokenizer, documents: str) -> None:
        self.documents = chunks.check_documents(documents)
        # Two bytes per id where the vocabulary allows it, and the same byte order on every machine.
        self._dtype = np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<u4")
        build = _build_character_encoder if tokenizer.kind == "chars" else _build_library_encoder
        self._encode = build(tokenizer, self._dtype)
        self._eos = np.array([EOS], self._dtype)

    def __call__(self, block: chunks.TextBlock) -> EncodedBlock:
        """Encode a block. Raises a UserError with file and offset if the text is not UTF-8."""
        pieces: list[tuple[int, bool]] = []  # bytes of each piece, and whether a document ends with it
        strings: list[str] = []
        for data, is_complete in chunks.split_documents(block, self.documents):
            parts = list(chunks.split_text(data, PIECE_BYTES))
            pieces += [(len(part), False) for part in parts[:-1]] + [(len(parts[-1]), is_complete)]
            try:
                strings += [part.decode() for part in parts]
            except UnicodeDecodeError:
                raise _utf8_error(block) from None
        ids: list[np.ndarray] = []
        starts, sizes = [0], [(0, 0, 0)]
        tokens = characters = num_bytes = 0
        for string, piece_ids, (size, ends_document) in zip(strings, self._encode(strings), pieces, strict=True):
            ids.append(piece_ids)
            tokens, characters, num_bytes = tokens + len(piece_ids), characters + len(string), num_bytes + size
            if ends_document:
                if (
                    not len(piece_ids) or piece_ids[-1] != EOS
                ):  # if lines end with [EOS], the last one ends the document
                    ids.append(self._eos)
                    tokens += 1
                starts.append(tokens)
            if num_bytes - sizes[-1][2] >= PIECE_BYTES:
                sizes.append((tokens, characters, num_bytes))
        if sizes[-1] != (tokens, characters, num_bytes):
            sizes.append((tokens, characters, num_bytes))
        starts = [start for start in starts if start < tokens and (start or block.starts)]
        return EncodedBlock(
            np.concatenate([*ids, np.empty(0, self._dtype)]),
            np.array(starts, np.int64),
            np.array(sizes[1:], np.int64).reshape(-1, 3),
        )


def _build_library_encoder(tokenizer: Tokenizer, dtype: np.dtype) -> Callable[[Sequence[str]], list[np.ndarray]]:
    def encode(strings: Sequence[str]) -> list[np.ndarray]:
        encodings = tokenizer.core.encode_batch_fast(list(strings), add_special_tokens=False)  # without offsets
        return [np.fromiter(encoding.ids, dtype, len(encoding)) for encoding in encodings]

    return encode


def _build_character_encoder(tokenizer: Tokenizer, dtype: np.dtype) -> Callable[[Sequence[str]], list[np.ndarray]]:
    id_of_character = np.full(0x110000, UNK, dtype)
    for token, id in tokenizer.core.get_vocab().items():
        if len(token) == 1:
            id_of_character[ord(token)] = id

    def encode(strings: Sequence[str]) -> list[np.ndarray]:
        return [id_of_character[np.frombuffer(string.encode("utf-32-le"), "<u4")] for string in strings]

    return encode


def _utf8_error(block: chunks.TextBlock) -> UserError:
    try:
        block.data.decode()
    except UnicodeDecodeError as error:
        if block.offset == 0 and block.data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return UserError(f"{block.file} is UTF-16, expected UTF-8; convert it: iconv -f utf-16 -t utf-8")
        unpacked = " of the unpacked text" if block.file.suffix.lower() == ".gz" else ""
        return UserError(
            f"{block.file} is not valid UTF-8: byte 0x{block.data[error.start]:02x} at offset "
            f"{block.offset + error.start}{unpacked}; convert it, for example: iconv -f latin1 -t utf-8"
        )
    raise AssertionError("a block was cut within a character")
