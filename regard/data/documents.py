"""Many documents as a few flat arrays: token ids, and where documents and sentences start among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers as tk

from regard.data.sentence_split import split_sentences
from regard.data.tokenizer import UNK, Tokenizer
from regard.data.word_shape import pack_shapes, find_shapes
from regard.errors import UserError

CHUNK_CHARACTERS = 4_000_000  # characters handed to the tokenizer at once: its own encodings take a hundred times the room of ours


@dataclass(frozen=True)
class TokenizedDocuments:
    """Document i has the tokens ids[starts[i]:starts[i+1]], and the sentences sentence_offsets[i]:sentence_offsets[i+1], of which
    sentence s starts at token sentence_starts[s] (counted in `ids`) and goes to the next start or the document's end.

    No document and no sentence is without tokens. `cut` counts the documents that were longer than allowed.
    """

    ids: np.ndarray  # (tokens,) int32
    starts: np.ndarray  # (documents + 1,) int64
    sentence_starts: np.ndarray  # (sentences,) int64
    sentence_offsets: np.ndarray  # (documents + 1,) int64
    cut: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each document."""
        return np.diff(self.starts)

    @property
    def sentence_counts(self) -> np.ndarray:
        """Sentences in each document."""
        return np.diff(self.sentence_offsets)

    @property
    def sentence_lengths(self) -> np.ndarray:
        """Tokens in each sentence of all documents."""
        return np.diff(self.sentence_starts, append=len(self.ids))

    def document(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids of document i, and the bounds of its sentences in them: 0, ..., length."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"document {i} of {len(self)}")
        i %= len(self)
        first, last = self.starts[i], self.starts[i + 1]
        bounds = self.sentence_starts[self.sentence_offsets[i] : self.sentence_offsets[i + 1]] - first
        return self.ids[first:last], np.append(bounds, last - first)


def encode_documents(
    texts: Sequence[str], tokenizer: Tokenizer, *, max_tokens: int | None = None, written: bool = False
) -> TokenizedDocuments:
    """Tokenize and split into sentences; of a document longer than `max_tokens` the beginning is kept.

    A token belongs to the sentence where it starts. A text without any token (only space) becomes one [UNK]. With
    `written` each id says as well how the token is written (regard.data.word_shape).
    """
    if max_tokens is not None and max_tokens < 1:
        raise UserError(f"max_tokens must be 1 or more, and was given {max_tokens}")
    ids: list[np.ndarray] = [np.empty(0, np.int32)]
    lengths: list[int] = []
    bounds: list[int] = []
    counts: list[int] = []
    total = cut = 0
    for chunk in _chunks(texts):
        for text, encoding in zip(chunk, tokenizer.encode_batch_raw(chunk), strict=True):
            tokens = np.array(encoding.ids or [UNK], np.int32)
            if written and encoding.ids:
                tokens = pack_shapes(tokens, find_shapes(text, np.array(encoding.offsets)))
            if max_tokens is not None and len(tokens) > max_tokens:
                tokens, cut = tokens[:max_tokens].copy(), cut + 1
            found = _sentences(text, encoding, len(tokens))
            ids.append(tokens)
            lengths.append(len(tokens))
            bounds.extend([total + at for at in found])
            counts.append(len(found))
            total += len(tokens)
    return TokenizedDocuments(
        ids=np.concatenate(ids),
        starts=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        sentence_starts=np.array(bounds, np.int64),
        sentence_offsets=np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64),
        cut=cut,
    )


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _sentences(text: str, encoding: tk.Encoding, length: int) -> list[int]:
    """The token at which each sentence starts, first 0; sentences past `length`, or without a token, are left out."""
    spans = split_sentences(text)
    if (
        len(spans) > 200
    ):  # each question to the library below walks the whole text: many of them are better answered here
        begins = np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 0]
        found = np.searchsorted(begins, [start for start, _ in spans[1:]]).tolist()
    else:
        found = [_token_at(encoding, start, end) for start, end in spans[1:]]
    starts = [0]
    for token in found:
        if token is not None and starts[-1] < token < length:
            starts.append(token)
    return starts


def _token_at(encoding: tk.Encoding, start: int, end: int) -> int | None:
    """The first token that starts in these characters."""
    for at in range(start, end):
        token = encoding.char_to_token(at)
        if token is not None:
            chars = encoding.token_to_chars(token)
            if chars is not None and chars[0] >= start:
                return token
    return None
